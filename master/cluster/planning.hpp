// From the options and the slaves at hand to a plan: timed and chosen, or as the user fixed it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "master/cluster/crew.hpp"
#include "master/cluster/head_place.hpp"
#include "master/cluster/net_forms.hpp"
#include "master/cluster/plan_options.hpp"
#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"
#include "plan/calibration.hpp"
#include "plan/choose.hpp"
#include "train/observer.hpp"

namespace convoy {

/// The form of a net whose first dense layer the members share, and where its heads are computed.
struct SlicedNet {
  const DenseSlices& slices;
  HeadPlace heads;
};

/// What a plan is for.
struct Work {
  const ClusterOptions& options;
  const Cut& cut;
  int batch;
  Device& device;                        ///< this machine's, a member with options.share
  HeadPlace heads;                       ///< where this machine computes them
  bool alone = true;                     ///< whether this machine alone may take the place of the slaves
  std::optional<SlicedNet> sliced = {};  ///< the other form of the net, which is timed, too
  DenseBy dense = DenseBy::automatic;    ///< which of the forms a plan is for
};

/// A plan before it is executed, and how it was found.
struct Planned {
  Plan plan;
  Calibration calibration;         ///< without members where shares were fixed
  std::optional<Choice> choice;    ///< how the plan was found, where times were measured
  std::optional<FixedPlan> fixed;  ///< where the user fixed the shares
  Wishes wishes = {};              ///< the wishes by which `choice` was made
  bool sliced = false;             ///< whether the plan is for the form Work::sliced of the net

  /// Returns the energy of a step on the master's machine alone, while the slaves idle.
  StepEnergy energy_alone() const {
    return convoy::energy_alone(calibration.seconds_alone, calibration.members, calibration.master, wishes.terms);
  }
  /// Returns whether slaves would not improve a step by a tenth, by the objective: so much predictions may be off.
  bool better_alone() const {
    constexpr double kWorthIt = 1.1;
    const double alone = calibration.seconds_alone;
    if (!choice || !(alone > 0.0)) return false;
    return cost_of(wishes.objective, alone, energy_alone().joules()) <
           kWorthIt * cost_of(wishes.objective, choice->predicted.seconds, choice->energy.joules());
  }
};

/// Members to whom a plan gives no filters, in words for people.
std::vector<std::string> idle_members(const Planned& planned);

/// Returns the timings of the crew's slaves, and of this machine with options.share: those of `known`, and new ones of
/// members that `known` does not have. Throws PeerLost.
Calibration calibrate_members(const Work& work, Crew& crew, const Observers& observers, const Calibration& known = {});

/// Returns a plan for the crew's slaves of now, and for this machine with options.share. Times the members that
/// `before`, the planning before in this run, has no timings of. Where the user fixed the shares, nobody is timed, and
/// members that are gone leave their shares to the others. Throws PeerLost, or Error where the options do not fit.
Planned plan_members(const Work& work, Crew& crew, const Observers& observers, const Planned& before = {});

}  // namespace convoy
