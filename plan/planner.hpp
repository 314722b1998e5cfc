// The planner, which computes the shares of every stage from the members' profiles.
#pragma once

#include <vector>

#include "plan/plan.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// Returns the plan that minimises, for each stage, the time of its slowest member, within every member's memory.
/// Members that would only slow a stage down get no filters of it. Throws Error with the sizes where the net does not
/// fit.
Plan make_plan(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members);

/// Returns whether the tiles of every member fit in its memory. Every member may have to compute a stage without tiles.
bool fits_in_memory(const Plan& plan, const std::vector<Stage>& trunk, const std::vector<MemberProfile>& members);

}  // namespace convoy
