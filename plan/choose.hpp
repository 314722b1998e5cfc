// The choice among plans: the plan whose simulated step is the shortest, or takes the least energy, on the machines as
// they were timed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/simulate.hpp"
#include "plan/step_energy.hpp"

namespace convoy {

/// A plan that is less simple must cost at most this part of a simpler one, and a plan with fewer members at most this
/// part of one with more.
constexpr double kWorthwhile = 0.99;
constexpr double kWorthLeavingOut = 0.95;

/// The options that the user has fixed; the planner chooses the others.
struct Wishes {
  std::optional<Exchange> exchange;
  int micro_batches = 0;  ///< 0: the planner chooses
  NumberType wire = NumberType::fp32;
  Layout layout = Layout::automatic;
  Objective objective = Objective::time;
  EnergyTerms terms = {};
};

/// A plan that was considered, in words, and its predicted step.
struct Alternative {
  std::string text;
  double seconds = 0.0;
  bool at_least = false;              ///< whether the step was not simulated, and seconds and joules are bounds
  Layout layout = Layout::filters;    ///< samples where stages are cut along them
  std::optional<double> joules = {};  ///< nothing where the power of a machine is not known
  bool shares_dense = false;          ///< whether members share the first dense layer
};

/// The chosen plan with its prediction and the plans that it was compared with.
struct Choice {
  Plan plan;
  Simulated predicted;
  std::vector<Alternative> alternatives;  ///< the best by the objective first
  StepEnergy energy = {};                 ///< predicted
};

/// Returns the simulator's model of the members as they were timed. `members` are the plan's; transfers over unmeasured
/// links cost nothing. With the plan's `graph`, the model counts the copies of maps, to and from the host and on the
/// device.
ClusterModel measured_cluster(const Plan& plan, const std::vector<Stage>& trunk,
                              const std::vector<MemberProfile>& members, const MasterProfile& master,
                              const TaskGraph* graph = nullptr);

/// Chooses among shares by speed within memory (make_plan) for all members and for only the fastest of them, star and
/// ring, several numbers of micro-batches, replicated first stages or none, and first stages cut along samples or none.
/// For the best plan of each set of members, tries whether sums of gradients should leave early.
/// Leaves out plans whose busiest processor or card alone makes them worse than the best plan. For other objectives
/// than time, the members that take the fewest joules for their work are tried, too. If the user wants a cut along
/// samples but no two members can share them, members share filters. The last member may be the master. Throws Error
/// with the sizes if the net does not fit, and Error with the names of the machines whose power is not known if the
/// objective needs it.
Choice choose_plan(const std::vector<Stage>& trunk, int batch, const std::vector<MemberProfile>& members,
                   const Wishes& wishes, const MasterProfile& master);

/// Returns the seconds of a step on one machine that computes everything.
double seconds_alone(const std::vector<Stage>& trunk, const MemberProfile& member, int batch, const HeadTimes& head);

}  // namespace convoy
