// The OpenCL device of this machine on which tests run.
#pragma once

#include <string>
#include <utility>

#include "cl/shared.hpp"
#include "core/error.hpp"

namespace convoy {

/// The number of the first usable device, or -1 and the reason.
inline std::pair<int, std::string> usable_device() {
  try {
    for (const ClDeviceId& id : opencl_devices()) {
      if (id.unusable.empty()) return {id.number, ""};
    }
    return {-1, "no OpenCL device can be used"};
  } catch (const Error& error) {
    return {-1, error.what()};
  }
}

/// What an OpenCL device has done so far.
inline ClCounts counts_of(Device& device) {
  const auto tensor = device.make_tensor({1, 1, 1, 1});
  return dynamic_cast<const ClTensor&>(*tensor).context().counts();
}

}  // namespace convoy
