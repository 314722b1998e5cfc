// The step that replicas which train by themselves take together: it treats what their mean has moved as a gradient.
// (Wang et al., SlowMo, ICLR 2020; with Nesterov's momentum Douillard et al., DiLoCo, 2023.)
#pragma once

#include "model/checkpoint.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// With the weights `old` before the local steps, the replicas' mean weights `mean` after them, and the velocity v:
///   d = old - mean,  v = momentum v + d,  weights = old - rate (d + momentum v).
/// With the default values the weights are the mean.
struct OuterStep {
  double momentum = 0.0;
  double rate = 1.0;
  bool is_mean() const { return momentum == 0.0 && rate == 1.0; }
};

/// Returns the model after an outer step, with its velocity (ModelState::outer). Running averages and the optimizer's
/// moments are those of `mean`. The velocity is that of `old`, and begins with zeros where `old` has none.
ModelState outer_step(const OuterStep& step, const Cut& cut, const ModelState& old, ModelState mean);

}  // namespace convoy
