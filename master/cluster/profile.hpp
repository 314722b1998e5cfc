// Measures how fast each member computes the stages of the trunk and how fast its link is, for the planner.
#pragma once

#include <vector>

#include "devices/known_times.hpp"
#include "kernels/device.hpp"
#include "master/cluster/crew.hpp"
#include "plan/plan.hpp"
#include "plan/profile.hpp"

namespace convoy {

struct Profiles {
  std::vector<MemberProfile> members;
  HostSpeed master;
  NodeLink card;  ///< MasterProfile::card
};

/// Measures the link to each slave in `slaves` (indices), first one after another, then to all at once. Then every
/// slave, and with `share` also the master's `device`, times each stage at several filter counts. All members compute
/// at the same time, as in training, but for stages whose times each machine knows from an earlier run (`known` has
/// those of `device`). The result lists the members in the order of `slaves`, with the master last. Throws PeerLost
/// naming the slave.
Profiles profile_members(Crew& crew, const std::vector<std::size_t>& slaves, Device& device, KnownTimes& known,
                         bool share, std::size_t own_memory, const std::vector<Stage>& trunk, int batch);

/// How long a slave may be silent before it counts as hung: a multiple of the longest predicted time of a shard in the
/// plan, but at least half a minute; ten minutes if no member was timed.
std::chrono::milliseconds patience_for(const Plan& plan, const std::vector<MemberProfile>& profiles);

}  // namespace convoy
