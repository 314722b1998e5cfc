// Deals members out into groups that are about equally fast, for replicas that should end their batches together.
#pragma once

#include <vector>

#include "core/stage.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// The speed of a member that computes all filters of the trunk, in batches a second; 0 where it cannot hold one of
/// them.
double speed_of(const MemberProfile& member, const std::vector<Stage>& trunk);

/// Deals out the members with these speeds: the fastest first, each to the group that is slowest so far, the first of
/// equals (Graham, Bounds on Multiprocessing Timing Anomalies, 1969). Returns the members of each group in ascending
/// order. No group is empty where there are as many members.
std::vector<std::vector<std::size_t>> even_groups(const std::vector<double>& speeds, int groups);

}  // namespace convoy
