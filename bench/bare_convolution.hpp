// oneDNN's convolution primitives by themselves: what the cpu device is measured against.
#pragma once

#include <memory>
#include <vector>

#include "core/stage.hpp"

namespace convoy {

class BareConvolution {
 public:
  virtual ~BareConvolution() = default;
  virtual void forward() = 0;
  virtual void input_gradient() = 0;
  virtual void filter_gradient() = 0;
};

/// One for each layout of the maps worth trying (the primitives' own choice, and channels last), with bias, on random
/// data; the fastest counts. Empty where oneDNN is not built in.
std::vector<std::unique_ptr<BareConvolution>> make_bare_convolutions(const Stage& stage, int filters, int batch,
                                                                     int threads);

}  // namespace convoy
