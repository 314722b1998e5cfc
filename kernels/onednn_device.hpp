// The CPU device on oneDNN.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// "cpu" where oneDNN is built in. Activations stay in oneDNN's own layouts from stage to stage. Equal numbers of
/// threads give equal bits.
std::unique_ptr<Device> make_onednn_device(int threads);

}  // namespace convoy
