// Shares corrected by what a run measures.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// Seconds that each member computed for each stage in a step, on average: [member][stage]; 0 where it holds nothing.
using MeasuredTimes = std::vector<std::vector<double>>;

/// The profiles as the run knows them: all timings of a member for a stage scaled so that they predict what its shard
/// took. Whoever holds nothing of a stage is corrected as those who do, on average: a run takes longer than a calibration,
/// and who was not measured must not look faster for it.
std::vector<MemberProfile> corrected(const std::vector<MemberProfile>& profiles, const Plan& plan,
                                     const MeasuredTimes& measured);

/// Like `plan`, with shares by these profiles, for the members that have filters in it; nothing unless the slowest
/// members' times then fall by more than the fraction `margin`.
std::optional<Plan> rebalanced(const std::vector<Stage>& trunk, const Plan& plan,
                               const std::vector<MemberProfile>& profiles, double margin);

}  // namespace convoy
