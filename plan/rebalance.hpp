// Correction of the shares by the times that a run measures.
#pragma once

#include <optional>
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

}  // namespace convoy
