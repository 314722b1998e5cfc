// Replicas of the net whose trunks run on crews of slaves, which may be lost, join and leave.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "master/cluster/cluster.hpp"
#include "train/replica.hpp"

namespace convoy {

/// A replica on a cluster. When a slave is lost, the batch at hand is computed again under a new plan; nothing else is
/// lost, because the weights are the server's.
class ClusterReplica : public Replica {
 public:
  /// The cluster must outlive the replica; see Replica.
  ClusterReplica(Cluster& cluster, const Cut& cut, int batch)
      : Replica(cluster.trunk(), cut, batch, cluster.heads()), cluster_(cluster) {}

  bool whole() override { return cluster_.has_slaves() || cluster_.members_change(); }

 private:
  void recover(const PeerLost& lost) override { use(cluster_.recover(lost)); }
  void prepare() override {
    if (cluster_.members_change()) use(cluster_.regroup());
  }
  void count_step() override { cluster_.count_step(); }

  Cluster& cluster_;
};

/// The clusters of a run's replicas, and the times of all members, from which they were grouped.
struct ClusterReplicas {
  std::vector<std::unique_ptr<Cluster>> clusters;  ///< empty if `stop` was set before all slaves had joined
  Calibration calibration;
};

/// Waits for the slaves that `options` asks for, times them, and deals them out to `replicas` clusters that are about
/// equally fast, each with a plan of its own. `cut` has no moments. All arguments must outlive the clusters.
ClusterReplicas assemble_replicas(int replicas, const ClusterOptions& options, const NetOptions& net_options,
                                  const Net& net, const Cut& cut, const Observers& observers,
                                  const std::atomic<bool>& stop, wire::Network& network = wire::tcp_network());

}  // namespace convoy
