// A device that computes everything on two devices and fails where they disagree. It finds drivers and kernels that are
// wrong on some machine.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// Returns a device whose results are those of `first`. `second` gets the same inputs, and the weights of `first` after
/// each update, so that differences do not grow. Throws Error naming stage, pass and place where more elements differ
/// by more than rounding explains than is tolerated: none of a forward pass, and one in a hundred of a gradient,
/// because equal maxima and values next to zero may send a gradient to another element.
std::unique_ptr<Device> make_check_device(std::unique_ptr<Device> first, std::unique_ptr<Device> second);

}  // namespace convoy
