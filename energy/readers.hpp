// The sources of energy, each in a file of its own. A function returns the meters of its source that this machine has
// or should have, usable or not; none where the machine has no such thing. The machine must outlive the meters.
#pragma once

#include <string>
#include <vector>

#include "energy/machine.hpp"
#include "energy/meter.hpp"

namespace convoy::energy {

using Meters = std::vector<MeterRow>;

/// The energy counters of processor packages (RAPL), of Intel and AMD, in the kernel's powercap folder.
Meters find_rapl(const Machine& machine);
/// NVIDIA GPUs, through the driver's library NVML.
Meters find_nvml(const Machine& machine);
/// AMD GPUs, through hwmon.
Meters find_amdgpu(const Machine& machine);
/// Intel GPUs, through hwmon of the drivers i915 and xe.
Meters find_intel_gpu(const Machine& machine);
/// The INA3221 sensors of NVIDIA's Jetson boards.
Meters find_jetson(const Machine& machine);
/// The INA231 sensors of Odroid XU3 and XU+E.
Meters find_odroid(const Machine& machine);
/// The power management chip of a Raspberry Pi 5, through vcgencmd.
Meters find_raspberry_pi(const Machine& machine);
/// The energy counters of a Pixel phone's rails (ODPM): GPU, CPU clusters, memory.
Meters find_odpm(const Machine& machine);
/// The battery of a phone, through sysfs, Termux or dumpsys.
Meters find_android_battery(const Machine& machine);
/// The batteries of a laptop, through power_supply.
Meters find_power_supply(const Machine& machine);
/// All other sensors of power and energy that hwmon shows.
Meters find_hwmon(const Machine& machine);

/// A plug with Shelly's firmware of either generation. `host` is its address in numbers.
MeterRow shelly_plug(const Machine& machine, const std::string& host);
/// A plug with the firmware Tasmota. `host` is its address in numbers.
MeterRow tasmota_plug(const Machine& machine, const std::string& host);
/// A file that another program writes, with lines of a time and a value under the header "time,watts" or "time,joules".
/// Times are seconds since 1970 by this machine's clock.
MeterRow csv_file(const Machine& machine, const std::string& file);

}  // namespace convoy::energy
