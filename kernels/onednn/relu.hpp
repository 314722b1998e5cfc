// ReLUs that keep NaN. Those of oneDNN 2.6 turn NaN into zero, by themselves and where another primitive includes them,
// because the processor's maximum of NaN and zero is zero.
#pragma once

#include <memory>

#include "kernels/onednn/layers.hpp"

namespace convoy {

/// Returns whether the activation is a ReLU or a leaky ReLU.
bool is_relu(const Activation& activation);
/// Applies an activation to maps in any layout; NaN stays NaN.
void activate_in_place(const Activation& activation, const dnnl::memory& maps);
/// The same as make_onednn_layer() and make_onednn_activation_backward(), for activations of which is_relu() holds.
std::unique_ptr<OnednnLayer> make_onednn_relu(OnednnEngine& engine, const Activation& activation, const Shape& shape,
                                              int micro_batch, const dnnl::memory& input);
std::unique_ptr<OnednnLayer> make_onednn_relu_backward(OnednnEngine& engine, const Activation& activation,
                                                       const Shape& shape, int micro_batch, const dnnl::memory& output);

}  // namespace convoy
