// A device that computes everything twice, on two devices, and fails where they disagree: to find a driver or a kernel
// that is wrong on some machine.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// Results are those of `first`; `second` gets the same inputs, and after each update the weights of `first`, so that
/// differences do not grow. Throws Error naming stage, pass and place where more elements differ, by more than rounding
/// explains, than may: none of a forward pass; of gradients one in a hundred, because equal maxima and values next to
/// zero may send a gradient elsewhere.
std::unique_ptr<Device> make_check_device(std::unique_ptr<Device> first, std::unique_ptr<Device> second);

}  // namespace convoy
