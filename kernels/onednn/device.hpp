// The CPU device on oneDNN.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// "cpu" where oneDNN is built in. Activations stay in oneDNN's own layouts from stage to stage. Equal numbers of
/// threads give equal bits. `bf16`: convolutions of 16 channels and more multiply values rounded to bfloat16 (8 bits of
/// mantissa) and sum in floats; weights are kept, and everything else is computed, in floats. Throws Error where the
/// processor has no instructions for it.
std::unique_ptr<Device> make_onednn_device(int threads, bool bf16);

}  // namespace convoy
