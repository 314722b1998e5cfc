// From options and the slaves at hand to a plan: timed and chosen, or as the user fixed it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>

#include "kernels/device.hpp"
#include "master/cluster/roster.hpp"
#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"
#include "plan/calibration.hpp"
#include "plan/choose.hpp"
#include "train/observer.hpp"

namespace convoy {

/// What a plan is for.
struct Work {
  const ClusterOptions& options;
  const Cut& cut;
  int batch;
  Device& device;  ///< this machine's, a member with options.share
  int threads;     ///< of this machine, that compute the heads (0: all cores)
};

/// A plan before it is executed.
struct Planned {
  std::unique_ptr<Roster> roster;
  Plan plan;
  Calibration calibration;       ///< without members where shares were fixed
  std::optional<Choice> choice;  ///< how the plan was found, where times were measured
  /// Where the user fixed shares: what each member is to have, in any scale, and the plan with all of them.
  std::map<std::string, double> fixed;
  Plan whole;

  /// Slaves would not make a step shorter by a tenth: so much predictions may be off.
  bool better_alone() const {
    constexpr double kWorthIt = 1.1;
    const double alone = calibration.seconds_alone;
    return choice && alone > 0.0 && alone < kWorthIt * choice->predicted.seconds;
  }
};

/// What the options settle of a plan. Throws Error where they contradict each other.
Wishes wishes_of(const ClusterOptions& options, int batch);

/// Throws Error for options that no slaves can satisfy: shares or a plan of another number of members, an address that
/// cannot be listened at, options that contradict each other. To be called before anybody is waited for.
void expect_possible(const ClusterOptions& options, const Cut& cut, int batch);

/// Members to whom a plan gives no filters, in words for people.
std::vector<std::string> idle_members(const Plan& plan);

/// Listens, and waits until there are options.slaves slaves; nothing if `stop` was set before.
std::unique_ptr<Roster> gather_slaves(const ClusterOptions& options, const std::string& run, const Observers& observers,
                                      const std::atomic<bool>& stop);
/// The same in the course of a run, for a roster that has lost too many. False if `stop` was set.
bool gather_slaves(const ClusterOptions& options, Roster& roster, int count, const Observers& observers,
                   const std::atomic<bool>& stop);

/// A plan for the roster's slaves of now, and this machine with options.share. Times those members whom nobody has timed
/// yet, unless the user has fixed the shares: those of members that are gone are then the others'. Throws PeerLost, or
/// Error where the options do not fit.
void plan_members(const Work& work, const Observers& observers, Planned& planned);

}  // namespace convoy
