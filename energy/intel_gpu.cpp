#include "energy/file_meter.hpp"
#include "energy/hwmon_chip.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

/// The GPU's register has 32 bits of 2^-14 J. The driver follows one wrap between two readings and loses further ones.
constexpr double kRegisterJoules = 262144;
constexpr double kMostGpuWatts = 1000;

/// The counter of the whole card, where the driver tells card and chip apart.
std::string card_counter(const Machine& machine, const HwmonChip& chip) {
  for (const std::string& name : names_like(machine, chip.folder, "energy")) {
    if (name.ends_with("_label") && text_if_any(machine, chip.folder + "/" + name) == "card") {
      return chip.folder + "/" + name.substr(0, name.size() - 6) + "_input";
    }
  }
  for (const char* name : {"/energy1_input", "/energy2_input"}) {
    if (!text_if_any(machine, chip.folder + name).empty()) return chip.folder + name;
  }
  return "";
}

}  // namespace

Meters find_intel_gpu(const Machine& machine) {
  Meters found;
  for (const HwmonChip& chip : hwmon_chips(machine)) {
    // Chips such as "i915_gt0" are tiles of "i915".
    if (chip.name != "i915" && chip.name != "xe") continue;
    MeterInfo info{.name = fmt::format("intel-gpu:{}", found.size()),
                   .device = gpu_name(chip),
                   .scope = Scope::gpu,
                   .quantity = Quantity::joules,
                   .longest_gap = kRegisterJoules / kMostGpuWatts};
    const std::string counter = card_counter(machine, chip);
    if (counter.empty()) {
      found.push_back(unusable(std::move(info), chip.folder + " has no energy counter; for a GPU in the processor RAPL "
                                                              "measures the whole package"));
      continue;
    }
    info.source = fmt::format("hwmon {}, {}", chip.name, counter.substr(counter.rfind('/') + 1));
    found.push_back(file_meter(machine, std::move(info), {{.name = "card", .path = counter}}, kGpuSensorDenied));
  }
  return found;
}

}  // namespace convoy::energy
