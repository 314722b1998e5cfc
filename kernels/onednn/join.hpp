// Layers that take in other maps, in oneDNN's layouts: sums and products.
#pragma once

#include <memory>

#include "kernels/onednn/layers.hpp"

namespace convoy {

/// Takes in maps that connect() must set before the first forward.
class OnednnJoin : public OnednnLayer {
 public:
  virtual void connect(const dnnl::memory& maps) = 0;
  /// Returns the gradient with respect to these maps, of the whole batch.
  virtual const dnnl::memory& taken_gradient() const = 0;
};

std::unique_ptr<OnednnJoin> make_onednn_add(OnednnEngine& engine, const Shape& shape, int micro_batch,
                                            const dnnl::memory& input);
std::unique_ptr<OnednnJoin> make_onednn_multiply(OnednnEngine& engine, const Multiply& multiply, const Shape& shape,
                                                 int micro_batch, const dnnl::memory& input);

}  // namespace convoy
