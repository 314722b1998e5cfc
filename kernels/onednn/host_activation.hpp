// Activations in oneDNN's layouts by the code that devices share on the processor: those that oneDNN 2.6 lacks,
// computes inaccurately (softplus), or computes so that NaN becomes a number, because the processor's maximum of NaN
// and a number is the number.
#pragma once

#include <memory>

#include "kernels/onednn/layers.hpp"

namespace convoy {

/// Returns whether the activation is computed here, and not by a primitive of oneDNN.
bool is_on_host(const Activation& activation);
/// Applies an activation to maps of this shape in any layout; NaN stays NaN.
void activate_in_place(const Activation& activation, const dnnl::memory& maps, const Shape& shape);
/// The same as make_onednn_layer() and make_onednn_activation_backward(), for activations of which is_on_host() holds.
std::unique_ptr<OnednnLayer> make_onednn_host_activation(OnednnEngine& engine, const Activation& activation,
                                                         const Shape& shape, int micro_batch,
                                                         const dnnl::memory& input);
std::unique_ptr<OnednnLayer> make_onednn_host_activation_backward(OnednnEngine& engine, const Activation& activation,
                                                                  const Shape& shape, int micro_batch,
                                                                  const dnnl::memory& output);

}  // namespace convoy
