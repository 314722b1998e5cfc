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

  /// The trunk holds until the next recover() or regroup().
  Trunk& trunk() { return *trunk_; }
  /// The plan at hand: shares may move in the course of a run.
  const Plan& plan() const { return slaves_ != nullptr ? slaves_->plan() : plan_; }
  const Device& device() const { return *device_; }
  /// Has no members where nobody was timed.
  const Calibration& calibration() const { return planned_.calibration; }

  /// Goes on without a slave that was lost, and without slaves that are lost meanwhile: with the others, with more where
  /// options.least_slaves asks to wait for them, or on this machine alone, as it does once `stop` is set. Where slaves cannot
  /// reach each other, the same slaves go on in a star. The trunk's state is then to be loaded. Throws Error where nobody can
  /// hold the net, or where slaves are lost again and again without a step in between.
  Trunk& recover(const PeerLost& lost);
  /// To be called after each step.
  void count_step();
  /// Whether slaves have come or want to go; to be asked once before each step.
  bool members_change();
  /// Has new slaves take part from now on, and leaves out those that want to go. The trunk's state is to be read before, and
  /// to be loaded afterwards. Where newcomers were lost meanwhile, the next ones have to wait nine times as long as that took,
  /// so that slaves which never take part cost a run a tenth of its time at most.
  Trunk& regroup();

  /// Tells the slaves that the run is over, and why.
  void dismiss(const std::string& reason);

 private:
  void form();
  void form_once();
  void execute();
  void lose(const PeerLost& lost);
  void train_alone();
  void finish_alone();
  void notice(const std::string& text) const;
  std::size_t slave_count() const { return planned_.roster ? planned_.roster->slaves().size() : 0; }

  const ClusterOptions& options_;
  const Cut& cut_;
  const Net& net_;
  const Observers& observers_;
  const std::atomic<bool>& stop_;
  int threads_;  ///< of this machine, for the heads
  std::unique_ptr<Device> device_;
  Planned planned_;
  bool formed_ = false;  ///< the run has begun
  int losses_ = 0;       ///< since the last step
  int most_losses_ = 0;  ///< before the next step
  std::unique_ptr<Trunk> trunk_;
  bool star_only_ = false;                ///< slaves cannot reach each other
  const ClusterTrunk* slaves_ = nullptr;  ///< trunk_, where it runs on slaves
  Plan plan_;                             ///< of a run without
};

}  // namespace convoy
