// The chips of the kernel's hwmon folder. Their numbers change from one start to the next, so they are known by name.
#pragma once

#include <string>
#include <vector>

#include "energy/machine.hpp"

namespace convoy::energy {

struct HwmonChip {
  std::string folder;  ///< such as "/sys/class/hwmon/hwmon3"
  std::string name;    ///< the driver's name for the chip, such as "amdgpu"
  std::string place;   ///< the device's place on its bus, such as "0000:03:00.0" or "1-0040"; empty if unknown
};

/// For GPUs' sensors, which drivers let everybody read.
inline const std::string kGpuSensorDenied =
    "the files of hwmon are readable to all by default; look at who may read /sys";

std::vector<HwmonChip> hwmon_chips(const Machine& machine);
/// Returns "gpu 0000:03:00.0", or "gpu" where the place is unknown.
std::string gpu_name(const HwmonChip& chip);

}  // namespace convoy::energy
