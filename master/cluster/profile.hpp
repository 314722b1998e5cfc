// Who can do what: members timed on the trunk's stages, for the planner.
#pragma once

#include <vector>

#include "kernels/device.hpp"
#include "master/cluster/roster.hpp"
#include "plan/plan.hpp"
#include "plan/profile.hpp"

namespace convoy {

struct Profiles {
  std::vector<MemberProfile> members;
  HostSpeed master;
  NodeLink card;  ///< as in MasterProfile
};

/// Measures the link to each of the `slaves` (indices), one after another, and to all of them at once. Then has them, and with
/// `share` the master's own `device`, time each stage at several filter counts, all at the same time as in training. The
/// members are in the order of `slaves`, the master last. Throws PeerLost naming the slave.
Profiles profile_members(Roster& roster, const std::vector<std::size_t>& slaves, Device& device, bool share,
                         std::size_t own_memory, const std::vector<Stage>& trunk, int batch);

/// How long a slave may be silent before it counts as hung: a multiple of the longest task that the plan gives out, and
/// at least half a minute; ten minutes where nobody was timed.
std::chrono::milliseconds patience_for(const Plan& plan, const std::vector<MemberProfile>& profiles);

}  // namespace convoy
