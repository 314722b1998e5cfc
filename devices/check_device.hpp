// A device that computes everything on two devices and fails if they disagree. It finds drivers and kernels that
// compute wrongly on some machine.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// Returns a device whose results are those of `first`. `second` gets the same inputs, and the weights of `first`
/// after each update, so that differences do not grow. Throws Error naming stage, pass and place if too many elements
/// differ by more than rounding explains: any element of a forward pass, or more than one in a hundred of a gradient,
/// because equal maxima and values next to zero may send a gradient to another element.
std::unique_ptr<Device> make_check_device(std::unique_ptr<Device> first, std::unique_ptr<Device> second);

}  // namespace convoy
