// Batch norm by oneDNN.
#pragma once

#include <memory>

#include "kernels/onednn/layers.hpp"

namespace convoy {

/// Returns a batch norm. With `fused` it includes a following ReLU, forward and backward.
std::unique_ptr<OnednnLayer> make_onednn_batch_norm(OnednnEngine& engine, const BatchNorm& layer, const Shape& shape,
                                                    int moments, const dnnl::memory& input, bool fused);

}  // namespace convoy
