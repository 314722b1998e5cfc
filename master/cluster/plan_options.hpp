// The part of a plan that the user's options settle: single wishes, or all shares.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"
#include "plan/choose.hpp"

namespace convoy {

/// Returns the user's wishes for a plan that is to be chosen. Throws Error where the options contradict each other.
Wishes wishes_of(const ClusterOptions& options, int batch);

/// Throws Error for options that no slaves can satisfy: shares or a plan of another number of members, an address that
/// cannot be listened at, options that contradict each other. Call it before waiting for slaves.
void expect_possible(const ClusterOptions& options, const Cut& cut, int batch);

/// Returns whether the options fix all shares: by numbers, or by the file of a plan.
bool fixes_shares(const ClusterOptions& options);
/// Returns whether the options name a file of a plan.
bool has_plan_file(const ClusterOptions& options);

/// The shares that the user fixed for the members that a run begins with.
class FixedPlan {
 public:
  /// Throws Error where the options do not fit the members.
  FixedPlan(const ClusterOptions& options, const std::vector<Stage>& trunk, int batch,
            const std::vector<std::string>& members);

  std::set<std::string> members() const;
  /// Returns the plan for some of the members. The members that are left out leave their shares to the others.
  Plan for_members(const std::vector<std::string>& members, const std::vector<Stage>& trunk) const;

 private:
  Plan whole_;                            ///< with all members
  std::map<std::string, double> shares_;  ///< of all members, in any scale
  bool by_samples_ = false;               ///< whether stages are cut along samples
};

}  // namespace convoy
