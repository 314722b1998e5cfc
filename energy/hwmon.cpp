#include <algorithm>
#include <map>

#include "energy/file_meter.hpp"
#include "energy/hwmon_chip.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

const std::string kHwmonDenied =
    "allow it until the next start with: sudo chmod a+r /sys/class/hwmon/hwmon*/{energy,power}*_input";

/// Chips with readers of their own.
bool has_reader(const std::string& chip) { return chip == "amdgpu" || chip == "xe" || chip.starts_with("i915"); }

/// Chips that measure the whole machine at its supply.
bool is_whole_machine(const std::string& chip, const std::string& label) {
  return chip == "power_meter" || (chip == "corsairpsu" && label == "power total");
}

/// A sensor of a chip: "power1" or "energy3", and its file.
struct Sensor {
  std::string name;
  std::string file;
};

std::vector<Sensor> sensors_of(const Machine& machine, const HwmonChip& chip) {
  std::map<std::string, std::string> files;
  for (const std::string& file : names_like(machine, chip.folder, "")) {
    if (!file.starts_with("power") && !file.starts_with("energy")) continue;
    const std::string name = file.substr(0, file.find('_'));
    const std::string kind = file.substr(std::min(name.size(), file.size()));
    // Where there are both, "_input" is the power now.
    if (kind == "_input" || (kind == "_average" && !files.contains(name))) files[name] = file;
  }
  std::vector<Sensor> sensors;
  for (const auto& [name, file] : files) sensors.push_back({name, file});
  return sensors;
}

MeterInfo info_of(const Machine& machine, const HwmonChip& chip, const Sensor& sensor) {
  std::string label = text_if_any(machine, chip.folder + "/" + sensor.name + "_label");
  const bool whole = is_whole_machine(chip.name, label);
  if (label.empty()) label = sensor.name;
  const bool averages = sensor.file.ends_with("_average");
  const double interval = 1e-3 * number_if_any(machine, chip.folder + "/update_interval").value_or(0);
  return {.name = fmt::format("hwmon:{}:{}", chip.name, label),
          .source = fmt::format("hwmon {}, {}", chip.name, sensor.file),
          .device = whole ? "machine" : fmt::format("rail {}:{}", chip.name, label),
          .scope = whole ? Scope::wall : Scope::rail,
          .origin = averages ? Origin::smoothed : Origin::measured,
          .quantity = sensor.name.starts_with("energy") ? Quantity::joules : Quantity::watts,
          .refresh = interval,
          .averaging = averages ? 1.0 : 0.0,
          // What other sensors are wired to is not known here.
          .by_default = whole};
}

/// Gives meters of the same name the places of their chips, which stay the same, or numbers.
std::string distinct(const std::string& name, const std::string& place, const Meters& found) {
  const auto taken = [&](const std::string& wanted) {
    return std::ranges::any_of(found, [&](const MeterRow& row) { return row.info.name == wanted; });
  };
  if (!taken(name)) return name;
  const std::string placed = place.empty() ? name : name + "@" + place;
  std::string wanted = placed;
  for (int number = 2; taken(wanted); ++number) wanted = fmt::format("{}#{}", placed, number);
  return wanted;
}

}  // namespace

Meters find_hwmon(const Machine& machine) {
  Meters found;
  std::vector<HwmonChip> chips = hwmon_chips(machine);
  // The numbers of hwmon change; the places on buses do not.
  std::ranges::sort(chips, {}, [](const HwmonChip& chip) { return std::pair(chip.name, chip.place); });
  for (const HwmonChip& chip : chips) {
    // The kernel also shows batteries here.
    const bool battery = !text_if_any(machine, chip.folder + "/device/capacity").empty();
    if (chip.name.empty() || has_reader(chip.name) || battery) continue;
    for (const Sensor& sensor : sensors_of(machine, chip)) {
      MeterInfo info = info_of(machine, chip, sensor);
      info.name = distinct(info.name, chip.place, found);
      found.push_back(file_meter(machine, std::move(info),
                                 {{.name = sensor.name, .path = chip.folder + "/" + sensor.file}}, kHwmonDenied));
    }
  }
  return found;
}

}  // namespace convoy::energy
