// oneDNN's convolution primitives alone, the baseline for the cpu device.
#pragma once

#include <memory>
#include <vector>

#include "core/stage.hpp"
#include "core/stopwatch.hpp"

namespace convoy {

/// The three passes of one convolution, each a single oneDNN primitive.
class BareConvolution {
 public:
  virtual ~BareConvolution() = default;
  virtual void forward() = 0;
  virtual void input_gradient() = 0;
  virtual void filter_gradient() = 0;
};

using BareLayouts = std::vector<std::unique_ptr<BareConvolution>>;

/// Returns the primitives on random data, with bias, one for each layout of the maps worth trying: the primitives' own
/// choice, and channels-last. The list is empty where oneDNN is not built in.
BareLayouts make_bare_convolutions(const Stage& stage, int filters, int batch, int threads);

/// Returns the seconds of one pass in each layout.
inline std::vector<double> seconds_by_layout(const BareLayouts& layouts, void (BareConvolution::*pass)()) {
  std::vector<double> seconds;
  for (const auto& layout : layouts) {
    const Stopwatch watch;
    (layout.get()->*pass)();
    seconds.push_back(watch.seconds());
  }
  return seconds;
}

}  // namespace convoy
