// Correction of the shares by the times that a run measures.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// The mean seconds that each member computed for each stage in a step: [member][stage]; 0 if it holds no filters.
using MeasuredTimes = std::vector<std::vector<double>>;

/// Returns the profiles with all timings of a member for a stage scaled, so that they predict the measured time of its
/// shard. Members that hold no filters of a stage get the average correction of the members that do: a run is slower
/// than a calibration, and an unmeasured member must not look faster because of it.
std::vector<MemberProfile> corrected(const std::vector<MemberProfile>& profiles, const Plan& plan,
                                     const MeasuredTimes& measured);

/// Returns `plan` with new shares by these profiles among the members that have tiles in it: filters of stages that are
/// cut along filters alone, and samples of stages that are cut along samples alone. Returns nothing unless the slowest
/// members' times fall by more than the fraction `margin`.
std::optional<Plan> rebalanced(const std::vector<Stage>& trunk, const Plan& plan,
                               const std::vector<MemberProfile>& profiles, double margin);

/// The options of a Rebalancer.
struct Rebalancing {
  std::vector<MemberProfile> profiles;  ///< profiles of the plan's members; if empty, shares never move
  int first_steps = 10;                 ///< measured steps before shares may move; they double after each move
  double margin = 0.05;                 ///< fraction of a step's time that a move must save
};

/// Sums up the computing times of the members in the steps of a plan, and finds plans that save more than the margin.
/// Members may be in different steps, so that nobody needs to wait for the times of all.
class Rebalancer {
 public:
  explicit Rebalancer(Rebalancing options) : options_(std::move(options)), steps_to_judge_(options_.first_steps) {}

  /// Drops all times and begins to measure this plan.
  void begin(const Plan& plan);
  /// Takes the seconds that a member computed for each stage in its next training step. The first steps of a plan do
  /// not count, because they compile kernels and fill caches.
  void add(std::size_t member, const std::vector<double>& stages);
  /// Returns a better plan if enough steps of every member with tiles have been counted since the last search, and
  /// there is one.
  std::optional<Plan> better(const std::vector<Stage>& trunk, const Plan& plan);

 private:
  static constexpr int kWarmUp = 2;  ///< steps of a plan that are not measured

  /// The times of a member since the last search for a better plan.
  struct Sums {
    int to_skip = kWarmUp;
    int steps = 0;               ///< steps whose times `stages` contains
    std::vector<double> stages;  ///< seconds
  };

  Rebalancing options_;
  std::vector<Sums> sums_;  ///< by member
  int steps_to_judge_;      ///< measured steps before the next search
};

}  // namespace convoy
