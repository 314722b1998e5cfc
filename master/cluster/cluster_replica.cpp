#include "master/cluster/cluster_replica.hpp"

#include <fmt/ranges.h>

#include "master/cluster/gather.hpp"
#include "plan/even_groups.hpp"

namespace convoy {
namespace {

/// Times all members. A slave that is lost meanwhile does not take part.
Calibration time_all(const Work& work, Crew& crew, int replicas, const Observers& observers) {
  while (true) {
    try {
      return calibrate_members(work, crew, observers);
    } catch (const PeerLost& lost) {
      if (lost.reason() == PeerLost::Reason::cannot_hold || !crew.remove_lost(lost.peer(), lost.what())) {
        throw Error(lost.what());
      }
      notice(observers, lost.what());
      if (static_cast<int>(crew.slaves().size()) < replicas) {
        fail("{} slaves are left for {} replicas, which need one each at the least; the last loss: {}",
             crew.slaves().size(), replicas, lost.what());
      }
    }
  }
}

}  // namespace

ClusterReplicas assemble_replicas(int replicas, const ClusterOptions& options, const NetOptions& net_options,
                                  const Net& net, const Cut& cut, const Observers& observers,
                                  const std::atomic<bool>& stop, wire::Network& network) {
  if (cut.trunk.empty()) {
    fail("{}: net {} has no convolutional layer, so there is nothing to share with slaves; leave out --slaves",
         net.file, net.name);
  }
  expect_possible(options, cut, net.training.batch);
  const std::shared_ptr<Device> device = make_device(net_options.device, net_options.device_options);
  const std::shared_ptr<Lobby> lobby = open_lobby(options, net.name, device->info().paced, observers, network);
  Crew all(*lobby);
  ClusterReplicas made;
  if (!gather_slaves(options, all, options.slaves, observers, stop)) return made;
  const int batch = net.training.batch;
  const Work work{options, cut, batch, *device, place_of_heads(net_options, cut, batch, *device), false};
  made.calibration = time_all(work, all, replicas, observers);
  std::vector<double> speeds;
  for (const MemberProfile& member : made.calibration.members) speeds.push_back(speed_of(member, cut.trunk));
  for (const std::vector<std::size_t>& group : even_groups(speeds, replicas)) {
    Cluster::Replica replica{.lobby = lobby, .calibration = made.calibration, .members = {}};
    for (const std::size_t member : group) replica.members.push_back(made.calibration.members[member].name);
    notice(observers,
           fmt::format("replica {} of {}: {}", made.clusters.size() + 1, replicas, fmt::join(replica.members, ", ")));
    made.clusters.push_back(std::make_unique<Cluster>(options, net_options, net, cut, observers, stop, device));
    made.clusters.back()->become(replica, all);
  }
  return made;
}

}  // namespace convoy
