// The planner, which computes the shares of every stage from the members' profiles.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.hpp"
#include "plan/profile.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// Returns the plan that minimises, for each stage, the time of its slowest member, within every member's memory.
/// Members that would only slow a stage down get no filters of it. Throws Error with the sizes where the net does not
/// fit.
Plan make_plan(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members);

/// Returns a plan of make_plan() in which members have room for values on their way as well, where these travel by
/// `exchange` in the type `wire`. If no such plan exists, returns the plan of make_plan(), and if this does not fit,
/// the plan without bounds of memory, because members that share samples may have room although shares of filters do
/// not fit. Returns nothing where no member was timed for a stage.
std::optional<Plan> shares_of_filters(const std::vector<Stage>& trunk, int batch, std::vector<MemberProfile> members,
                                      Exchange exchange, NumberType wire);

/// Returns whether every member has memory for its shards, and where this is the host's also for host_bytes().
/// `training` is the graph of a training step of the plan.
bool fits_in_memory(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training,
                    const std::vector<MemberProfile>& members);

/// Throws Error with the sizes, where a net does not fit in the members' memory.
[[noreturn]] void refuse_size(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members);

}  // namespace convoy
