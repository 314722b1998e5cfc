#include "energy/hwmon_chip.hpp"

namespace convoy::energy {

std::vector<HwmonChip> hwmon_chips(const Machine& machine) {
  const std::string all = "/sys/class/hwmon";
  std::vector<HwmonChip> chips;
  for (const std::string& number : names_like(machine, all, "hwmon")) {
    const std::string folder = all + "/" + number;
    chips.push_back({folder, text_if_any(machine, folder + "/name"), machine.target(folder + "/device")});
  }
  return chips;
}

std::string gpu_name(const HwmonChip& chip) { return chip.place.empty() ? "gpu" : "gpu " + chip.place; }

}  // namespace convoy::energy
