// The CPU device, which computes with oneDNN.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// Returns the device "cpu" of programs with oneDNN. Activations stay in oneDNN's own layouts from stage to stage.
/// Equal numbers of threads give equal bits. With `bf16`, convolutions of 16 channels and more multiply values rounded
/// to bfloat16 (8 bits of mantissa) and sum in floats; everything else stays in floats. Throws Error where the
/// processor has no bfloat16 instructions.
std::unique_ptr<Device> make_onednn_device(int threads, bool bf16);

}  // namespace convoy
