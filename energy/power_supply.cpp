#include "energy/battery.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
Meters find_power_supply(const Machine& machine) {
  Meters found;
  for (const std::string& name : names_like(machine, kPowerSupply, "")) {
    const std::string folder = kPowerSupply + "/" + name;
    if (name == "battery" || text_if_any(machine, folder + "/type") != "Battery") continue;
    // Batteries of mice and keyboards do not feed the machine.
    if (text_if_any(machine, folder + "/scope") == "Device") continue;
    found.push_back(battery_meter({.name = "battery:" + name, .source = "power_supply " + name},
                                  [&machine, files = battery_files(machine, name)] {
                                    return battery_in_sysfs(machine, files,
                                                            "the files of power_supply are readable to all by default");
                                  }));
  }
  if (found.size() < 2) return found;
  // Of two batteries often only one is in use, and the other's share is unknown while it is not.
  for (MeterRow& row : found) {
    row = unusable(std::move(row.info),
                   "this machine has several batteries, which feed it in turns; measure it with a plug");
  }
  return found;
}

}  // namespace convoy::energy
