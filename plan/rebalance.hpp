// Correction of the shares by the times that a run measures.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// Average seconds that each member computed for each stage in a step: [member][stage]; 0 where it holds no filters.
using MeasuredTimes = std::vector<std::vector<double>>;

/// Returns the profiles with all timings of a member for a stage scaled, so that they predict the measured time of its
/// shard. Members that hold no filters of a stage get the average correction of the members that do: a run is slower
/// than a calibration, and an unmeasured member must not look faster because of it.
std::vector<MemberProfile> corrected(const std::vector<MemberProfile>& profiles, const Plan& plan,
                                     const MeasuredTimes& measured);

/// Returns `plan` with new shares by these profiles among the members that have filters in it. Returns nothing unless
/// the slowest members' times fall by more than the fraction `margin`.
std::optional<Plan> rebalanced(const std::vector<Stage>& trunk, const Plan& plan,
                               const std::vector<MemberProfile>& profiles, double margin);

/// When shares follow the measured times.
struct Rebalancing {
  std::vector<MemberProfile> profiles;  ///< of the plan's members; empty: the shares stay
  int first_steps = 10;                 ///< before shares may move; twice as many after each move
  double margin = 0.05;                 ///< the fraction of a step's time that a move must save
};

/// Sums up what members computed in the steps under a plan, and finds plans that save more than the margin.
class Rebalancer {
 public:
  explicit Rebalancer(Rebalancing options) : options_(std::move(options)), steps_to_judge_(options_.first_steps) {}

  /// From now on times are those of this plan.
  void begin(const Plan& plan);
  /// Seconds that a member computed for a stage in the step at hand.
  void count(std::size_t member, std::size_t stage, double seconds) { measured_[member][stage] += seconds; }
  /// Ends a training step under `plan`; gives a better plan where enough steps show that there is one. The first steps of
  /// a plan are left out, since they compile kernels and fill caches.
  std::optional<Plan> end_step(const std::vector<Stage>& trunk, const Plan& plan);

 private:
  void forget();

  Rebalancing options_;
  MeasuredTimes measured_;  ///< sums since the last judgement
  int steps_ = 0;           ///< under the plan
  int steps_measured_ = 0;  ///< of these, since the last judgement
  int steps_to_judge_;
};

}  // namespace convoy
