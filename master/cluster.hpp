// From options to a trunk that computes: alone on this machine, or with slaves under a plan.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "kernels/device.hpp"
#include "master/cluster_trunk.hpp"
#include "master/observer.hpp"
#include "master/options.hpp"
#include "master/roster.hpp"
#include "master/trunk.hpp"
#include "nets/net.hpp"
#include "plan/calibration.hpp"
#include "plan/choose.hpp"

namespace convoy {

/// The members of a run and the trunk on them.
class Cluster {
 public:
  /// Waits for the slaves that `options` asks for, times them, plans, and has them compile their shards. Tells
  /// observers what it waits for. Returns nothing if `stop` was set before the slaves were here.
  static std::unique_ptr<Cluster> assemble(const ClusterOptions& options, const NetOptions& net_options, const Net& net,
                                           const Cut& cut, const Observers& observers, const std::atomic<bool>& stop);

  Trunk& trunk() { return *trunk_; }
  /// The plan at hand: shares may move in the course of a run.
  const Plan& plan() const { return slaves_ != nullptr ? slaves_->plan() : plan_; }
  const Device& device() const { return *device_; }
  /// Without members where nobody was timed.
  const Calibration& calibration() const { return calibration_; }
  /// Tells the slaves that the run is over, and why.
  void dismiss(const std::string& reason);

 private:
  void train_alone(const Cut& cut, const FeatureShape& input, int batch);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Roster> roster_;
  std::unique_ptr<Trunk> trunk_;
  const ClusterTrunk* slaves_ = nullptr;  ///< trunk_, where it runs on slaves
  Plan plan_;                             ///< of a run without
  Calibration calibration_;
};

/// A plan before it is executed.
struct Planned {
  std::unique_ptr<Roster> roster;
  Plan plan;
  Calibration calibration;       ///< without members where shares were fixed
  std::optional<Choice> choice;  ///< how the plan was found, where times were measured

  /// Slaves would only slow the training down.
  bool better_alone() const {
    const double alone = calibration.seconds_alone;
    return choice && alone > 0.0 && alone <= choice->predicted.seconds;
  }
};
/// What the options settle of a plan. Throws Error where they contradict each other.
Wishes wishes_of(const ClusterOptions& options, int batch);

/// Members to whom a plan gives no filters, in words for people.
std::vector<std::string> idle_members(const Plan& plan);

/// Waits for the slaves and makes the plan. `device`: this machine's, which is a member with options.share. Nothing if
/// `stop` was set before the slaves were here.
std::optional<Planned> make_plan_with_slaves(const ClusterOptions& options, const std::string& run, const Cut& cut,
                                             int batch, Device& device, const Observers& observers,
                                             const std::atomic<bool>& stop);

}  // namespace convoy
