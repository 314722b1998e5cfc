// The convolution of a library by itself, without Convoy around it: the benchmarks measure devices against it.
#pragma once

#include <memory>
#include <vector>

namespace convoy {

/// The three passes on random data, with bias. Each returns when the pass has ended.
class BareConvolution {
 public:
  virtual ~BareConvolution() = default;
  virtual void forward() = 0;
  virtual void input_gradient() = 0;
  virtual void filter_gradient() = 0;
};

/// One for each layout of the maps that is worth a try.
using BareLayouts = std::vector<std::unique_ptr<BareConvolution>>;

}  // namespace convoy
