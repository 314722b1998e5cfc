// The tree-structured Parzen estimator (J. Bergstra et al., "Algorithms for Hyper-SearchedField Optimization", NIPS
// 2011, section 4), for parameters that do not depend on each other. The observations are split into the best seventh
// or so and the rest. For each parameter, the values of either part make a density; l(x) is the product of those of the
// good ones, g(x) that of the others. The expected improvement at a setting x grows with l(x) / g(x), so that of some
// settings drawn from l the one with the largest quotient is taken.
//
// The density of a range is a mixture of normal distributions, cut off at the ends of the range: one around each
// observed value, as wide as the farther of the distances to its neighbours, and one as wide as the range, which keeps
// every value possible. The density of a choice counts how often each value was observed, with one more for each. One
// in four settings has all its choices at random, which is not in the paper: counts alone would stay with the choices
// that the first good trials happened to have.
#pragma once

#include <vector>

#include "core/random.hpp"
#include "master/jobs/space.hpp"

namespace convoy {

/// A setting that was tried; the cost is infinite where training diverged.
struct Observation {
  TrialSetting setting;
  double cost = 0.0;
};

/// Draws the next setting. The observations have as many values as the space has parameters; of equal costs, the
/// earlier observation counts as better. There must be at least two. `running` are settings of trials that have no
/// result yet. They count as worse than all observations, so that trials that run at the same time are not alike
/// (constant liar: D. Ginsbourger et al., "Kriging Is Well-Suited to Parallelize Optimization", 2010).
TrialSetting tpe_setting(const Space& space, const std::vector<Observation>& observations,
                         const std::vector<TrialSetting>& running, Random& random);

}  // namespace convoy
