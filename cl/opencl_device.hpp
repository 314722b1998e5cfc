// Devices that OpenCL drives: GPUs of desktops and phones, and processors through PoCL.
#pragma once

#include <memory>

#include "cl/context.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// How descriptions end where ClConvolutions::products is asked for.
inline constexpr const char* kByClblast = ", convolutions by CLBlast alone";

/// The OpenCL device of that number (opencl_devices()). Throws Error where there is none or it cannot be used.
std::unique_ptr<Device> make_opencl_device(int number, const ClSettings& settings = {});

}  // namespace convoy
