// Dense layers that a device computes.
#pragma once

#include "kernels/device.hpp"
#include "model/dense_layer.hpp"

namespace convoy {

/// Returns a dense layer on maps (1, channels, height, width) as a convolution whose kernel covers the whole map, with
/// a filter for each unit. It computes the same sums, every device supports it, and its weights have the same order.
Stage dense_stage(const std::string& name, const Shape& maps, int units);

/// Returns a dense layer that `device` computes, which must outlive it. The layer moves its values between host and
/// device only when somebody asks for them where they are not: training leaves weights, moments and gradients on the
/// device.
///
/// The device compiles the layer for the parts of a batch when the first of them passes, and again where a batch comes
/// in other equal parts. Where the device has no room for the layer, or parts are not equal, the host computes it from
/// then on, and `notice` gets a sentence that says why.
std::unique_ptr<DenseLayer<float>> make_device_dense(const DenseSpec& spec, Device& device,
                                                     const std::function<void(const std::string&)>& notice);

}  // namespace convoy
