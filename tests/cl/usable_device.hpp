// The OpenCL device of this machine on which tests run.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cl/opencl_device.hpp"
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

/// The devices of one process with different settings. A device compiles its kernels when it is made, so tests share
/// them.
class KeptDevices : public testing::Environment {
 public:
  static Device& with(int number, const ClSettings& settings) {
    const auto text = [](const std::optional<bool>& value) { return value ? (*value ? "yes" : "no") : "as reported"; };
    const std::string key =
        fmt::format("{} {} {} {} {} {} {}", number, text(settings.processor), text(settings.shares_memory),
                    settings.group, static_cast<int>(settings.convolutions), text(settings.images), settings.half);
    std::unique_ptr<Device>& device = devices()[key];
    if (device == nullptr) device = make_opencl_device(number, settings);
    return *device;
  }
  void TearDown() override { devices().clear(); }

 private:
  static std::map<std::string, std::unique_ptr<Device>>& devices() {
    static std::map<std::string, std::unique_ptr<Device>> all;
    return all;
  }
};

/// What an OpenCL device has done so far.
inline ClCounts counts_of(Device& device) {
  const auto tensor = device.make_tensor({1, 1, 1, 1});
  return dynamic_cast<const ClTensor&>(*tensor).context().counts();
}

}  // namespace convoy
