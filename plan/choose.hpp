// The choice among plans: the one whose step would be the shortest on the machines as they were timed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/simulate.hpp"

namespace convoy {

/// What the user has settled; the rest is chosen.
struct Wishes {
  std::optional<Exchange> exchange;
  int micro_batches = 0;  ///< 0: chosen
  NumberType wire = NumberType::fp32;
};

/// A plan that was looked at, in words, and its predicted step.
struct Alternative {
  std::string text;
  double seconds = 0.0;
};

struct Choice {
  Plan plan;
  Simulated predicted;
  std::vector<Alternative> alternatives;  ///< all that were looked at, the fastest first
};

/// The members as they were timed, for the simulator. `members` are the plan's; links that were not measured cost
/// nothing.
ClusterModel measured_cluster(const Plan& plan, const std::vector<Stage>& trunk,
                              const std::vector<MemberProfile>& members, const MasterProfile& master);

/// Shares by speed within memory (make_plan) for all members, and for the fastest of them only; star and ring; several
/// numbers of micro-batches; the first stages replicated or not. The last member is the master where that is its name.
/// Throws Error with the numbers where the net does not fit.
Choice choose_plan(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members,
                   const Wishes& wishes, const MasterProfile& master);

/// Seconds of a step on one machine that computes everything.
double seconds_alone(const std::vector<Stage>& trunk, const MemberProfile& member, int batch, const HeadTimes& head);

}  // namespace convoy
