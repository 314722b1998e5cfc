#include "energy/file_meter.hpp"
#include "energy/hwmon_chip.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {

Meters find_amdgpu(const Machine& machine) {
  Meters found;
  for (const HwmonChip& chip : hwmon_chips(machine)) {
    if (chip.name != "amdgpu") continue;
    MeterInfo info{.name = fmt::format("amdgpu:{}", found.size()), .device = gpu_name(chip), .scope = Scope::gpu};
    // Firmware gives an average over about a second, or the power now. The energy counters of these GPUs are wrong on
    // some of them (ROCm's amdsmi, issue 38), so the power is integrated.
    const std::string average = chip.folder + "/power1_average";
    const std::string now = chip.folder + "/power1_input";
    const bool averages = !text_if_any(machine, average).empty();
    if (!averages && text_if_any(machine, now).empty()) {
      found.push_back(unusable(std::move(info), chip.folder +
                                                    " has neither power1_average nor power1_input: this GPU or its "
                                                    "driver shows no power"));
      continue;
    }
    info.source = averages ? "hwmon amdgpu, power1_average" : "hwmon amdgpu, power1_input";
    info.origin = averages ? Origin::smoothed : Origin::measured;
    info.averaging = averages ? 1.0 : 0.0;
    found.push_back(
        file_meter(machine, std::move(info), {{.name = "power1", .path = averages ? average : now}}, kGpuSensorDenied));
  }
  return found;
}

}  // namespace convoy::energy
