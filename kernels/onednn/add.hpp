// Sums of maps in oneDNN's layouts.
#pragma once

#include <memory>

#include "kernels/onednn/layers.hpp"

namespace convoy {

/// Adds maps, which connect() must set before the first forward.
class OnednnAdd : public OnednnLayer {
 public:
  virtual void connect(const dnnl::memory& added) = 0;
};
std::unique_ptr<OnednnAdd> make_onednn_add(OnednnEngine& engine, const Shape& shape, int micro_batch,
                                           const dnnl::memory& input);

}  // namespace convoy
