// Who computes a run's trunk: this machine alone, or slaves under a plan; and how that changes when slaves are lost, come
// and go.
#pragma once

#include <atomic>
#include <memory>

#include "master/cluster/cluster_trunk.hpp"
#include "master/cluster/planning.hpp"
#include "train/trunk.hpp"

namespace convoy {

class Cluster {
 public:
  /// See assemble().
  Cluster(const ClusterOptions& options, const NetOptions& net_options, const Net& net, const Cut& cut,
          const Observers& observers, const std::atomic<bool>& stop);

  /// Waits for the slaves that `options` asks for, times them, plans, and has them compile their shards. Tells
  /// observers what it waits for. Returns nothing if `stop` was set before the slaves were here. All that is given must
  /// outlive the cluster.
  static std::unique_ptr<Cluster> assemble(const ClusterOptions& options, const NetOptions& net_options, const Net& net,
                                           const Cut& cut, const Observers& observers, const std::atomic<bool>& stop);

  /// Until the next recover() or regroup().
  Trunk& trunk() { return *trunk_; }
  /// The plan at hand: shares may move in the course of a run.
  const Plan& plan() const { return slaves_ != nullptr ? slaves_->plan() : plan_; }
  const Device& device() const { return *device_; }
  /// Without members where nobody was timed.
  const Calibration& calibration() const { return planned_.calibration; }

  /// Goes on without a slave that was lost, and those that are lost meanwhile (or in a star, if it was Unreachable): with the others, with more where
  /// options.least_slaves asks to wait for them, or on this machine alone. The trunk's state is then to be loaded. Throws
  /// Error where nobody can hold the net.
  Trunk& recover(const PeerLost& lost);
  /// Whether slaves have come or want to go. Once before each step, as is
  bool members_change();
  /// which has them take part from now on, or leaves them out. The trunk's state, which is to be read before, is then to
  /// be loaded.
  Trunk& regroup();

  /// Tells the slaves that the run is over, and why.
  void dismiss(const std::string& reason);

 private:
  void form();
  void form_once();
  void execute();
  void go_through_the_master(const PeerLost& error);
  void lose(const PeerLost& lost);
  void train_alone();
  void notice(const std::string& text) const;
  std::size_t slave_count() const { return planned_.roster ? planned_.roster->slaves().size() : 0; }

  const ClusterOptions& options_;
  const Cut& cut_;
  const Net& net_;
  const Observers& observers_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<Device> device_;
  Planned planned_;
  bool formed_ = false;  ///< the run has begun
  std::unique_ptr<Trunk> trunk_;
  bool star_only_ = false;                ///< slaves cannot reach each other
  const ClusterTrunk* slaves_ = nullptr;  ///< trunk_, where it runs on slaves
  Plan plan_;                             ///< of a run without
};

}  // namespace convoy
