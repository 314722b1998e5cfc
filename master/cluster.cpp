#include "master/cluster.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <arpa/inet.h>

#include <array>
#include <charconv>

#include "devices/registry.hpp"
#include "kernels/matmul.hpp"
#include "master/cluster_trunk.hpp"
#include "master/local_trunk.hpp"
#include "master/profile.hpp"
#include "master/run_folder.hpp"

namespace convoy {
namespace {

void notice(const Observers& observers, const std::string& text) {
  for (const auto& observer : observers) observer->on_notice(text);
}

/// An IPv4 address at which other machines may reach this one, or 127.0.0.1.
std::string own_address() {
  std::string address = "127.0.0.1";
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return address;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* internet = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    inet_ntop(AF_INET, &internet->sin_addr, text.data(), text.size());
    if (std::string(text.data()).rfind("127.", 0) != 0) {
      address = text.data();
      break;
    }
  }
  freeifaddrs(first);
  return address;
}

/// What to paste on the slaves: the endpoint with an address instead of a wildcard.
std::string join_address(const std::string& endpoint) {
  for (const std::string wildcard : {"tcp://0.0.0.0:", "tcp://*:"}) {
    if (endpoint.rfind(wildcard, 0) == 0) return "tcp://" + own_address() + ":" + endpoint.substr(wildcard.size());
  }
  return endpoint;
}

std::vector<double> parse_shares(const std::string& text, std::size_t members) {
  std::vector<double> shares;
  const char* place = text.data();
  const char* end = text.data() + text.size();
  while (place < end) {
    double share = 0.0;
    const auto [rest, error] = std::from_chars(place, end, share);
    if (error != std::errc() || !(share >= 0.0) || share > 1e9 || (rest != end && *rest != ',')) break;
    shares.push_back(share);
    place = rest == end ? end : rest + 1;
  }
  double sum = 0.0;
  for (const double share : shares) sum += share;
  if (place != end || shares.size() != members || !(sum > 0.0)) {
    fail("--shares '{}': expected {} numbers, one for each member, not all zero, as in {}", text, members,
         members == 2 ? "2,1" : "3,2,1");
  }
  return shares;
}

/// A plan of an earlier run, for this run's members, in order.
Plan read_plan(const std::string& file, const std::vector<std::string>& members, const std::vector<Stage>& trunk,
               int batch) {
  Plan plan = plan_from_json(read_text(file), file);
  if (plan.members.size() != members.size()) {
    fail("{}: it is for {} members, this run has {}", file, plan.members.size(), members.size());
  }
  plan.members = members;
  plan.batch = batch;
  validate(plan, trunk);
  return plan;
}

/// What the user asks for besides shares.
void override_plan(const ClusterOptions& options, Plan& plan) {
  if (!options.wire.empty()) plan.wire = number_type_from(options.wire);
  if (!options.exchange.empty()) set_exchange(plan, exchange_from(options.exchange));
  if (options.micro_batch == 0) return;
  if (plan.batch % options.micro_batch != 0) {
    fail("--micro-batch {}: the batch of {} is no multiple of it", options.micro_batch, plan.batch);
  }
  plan.micro_batches = plan.batch / options.micro_batch;
}

}  // namespace

std::optional<Planned> make_plan_with_slaves(const ClusterOptions& options, const std::string& run,
                                             const std::vector<Stage>& trunk, int batch, Device* own,
                                             const Observers& observers, const std::atomic<bool>& stop) {
  Planned planned;
  planned.roster = std::make_unique<Roster>(options.listen, run);
  Roster& roster = *planned.roster;
  const std::string join = "convoy-slave " + join_address(roster.endpoint());
  const bool complete = roster.gather(options.slaves, stop, [&] {
    const std::size_t here = roster.slaves().size();
    std::string names;
    for (const SlaveInfo& slave : roster.slaves()) {
      names += fmt::format("{}{} ({})", names.empty() ? ": " : ", ", slave.name, slave.device);
    }
    const bool waiting = static_cast<int>(here) < options.slaves;
    notice(observers, fmt::format("{} of {} slaves{}{}", here, options.slaves, names,
                                  waiting ? "; on each further machine run: " + join : ""));
  });
  if (!complete) return std::nullopt;

  std::vector<std::string> members;
  for (const SlaveInfo& slave : roster.slaves()) members.push_back(slave.name);
  if (own != nullptr) members.emplace_back("master");
  if (!options.plan.empty()) {
    planned.plan = read_plan(options.plan, members, trunk, batch);
  } else if (!options.shares.empty()) {
    planned.plan = proportional_plan(trunk, batch, members, parse_shares(options.shares, members.size()));
  } else {
    notice(observers, "timing the members on the net's stages");
    std::size_t memory = 0;  // only this machine's own share asks for it
    if (!options.memory.empty()) {
      memory = parse_memory(options.memory);
    } else if (own != nullptr) {
      memory = default_memory(own->info());
    }
    if (own != nullptr) {
      memory = static_cast<std::size_t>(static_cast<double>(memory) / own->info().memory_factor);
    }
    planned.profiles = profile_members(roster, own, memory, trunk, batch);
    planned.plan = make_plan(trunk, batch, planned.profiles);
  }
  override_plan(options, planned.plan);
  return planned;
}

std::unique_ptr<Cluster> Cluster::assemble(const ClusterOptions& options, const NetOptions& net_options, const Net& net,
                                           const Cut& cut, const Observers& observers, const std::atomic<bool>& stop) {
  auto cluster = std::make_unique<Cluster>();
  const int batch = net.training.batch;
  cluster->device_ = make_device(net_options.device, net_options.device_options);
  const int threads = net_options.device_options.threads;
  set_matmul_threads(threads > 0 ? threads : hardware_threads());
  if (options.slaves == 0) {
    const Shape input{batch, net.input.channels, net.input.height, net.input.width};
    cluster->trunk_ = std::make_unique<LocalTrunk>(cut.trunk, input, *cluster->device_);
    cluster->plan_ = whole_plan(cut.trunk, batch, "master");
    return cluster;
  }
  if (cut.trunk.empty()) {
    fail("{}: net {} has no convolutional layer, so there is nothing to share with slaves; leave out --slaves",
         net.file, net.name);
  }
  Device* own = options.share ? cluster->device_.get() : nullptr;
  auto planned = make_plan_with_slaves(options, net.name, cut.trunk, batch, own, observers, stop);
  if (!planned) return nullptr;
  cluster->roster_ = std::move(planned->roster);
  cluster->plan_ = planned->plan;
  const auto patience = patience_for(cluster->plan_, planned->profiles);
  try {
    cluster->trunk_ = std::make_unique<ClusterTrunk>(cut.trunk, cluster->plan_, *cluster->roster_, own, patience);
  } catch (const Unreachable& error) {
    notice(observers, fmt::format("{}; maps go through the master instead (--exchange star)", error.what()));
    set_exchange(cluster->plan_, Exchange::star);
    cluster->trunk_ = std::make_unique<ClusterTrunk>(cut.trunk, cluster->plan_, *cluster->roster_, own, patience);
  }
  return cluster;
}

void Cluster::dismiss(const std::string& reason) {
  if (roster_) roster_->dismiss(reason);
}

}  // namespace convoy
