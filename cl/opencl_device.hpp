// OpenCL devices: GPUs of desktops and phones, and processors through PoCL.
#pragma once

#include <memory>

#include "cl/context.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// The end of the description of a device whose convolutions are all computed by CLBlast (ClConvolutions::products).
inline constexpr const char* kByClblast = ", convolutions by CLBlast alone";

/// Returns the OpenCL device with this number in opencl_devices(). Throws Error where it does not exist or cannot be
/// used.
std::unique_ptr<Device> make_opencl_device(int number, const ClSettings& settings = {});

}  // namespace convoy
