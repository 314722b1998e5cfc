// oneDNN's convolution primitives by themselves, in the layouts they like best: what the cpu device is measured against.
#pragma once

#include <memory>

#include "core/stage.hpp"

namespace convoy {

class BareConvolution {
 public:
  virtual ~BareConvolution() = default;
  virtual void forward() = 0;
  virtual void input_gradient() = 0;
  virtual void filter_gradient() = 0;
};

/// With bias, on random data; null where oneDNN is not built in.
std::unique_ptr<BareConvolution> make_bare_convolution(const Stage& stage, int filters, int batch, int threads);

}  // namespace convoy
