#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "energy/file_meter.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

const std::string kJetsonDenied = "run as root, or let the owner of the files in /sys/bus/i2c/drivers allow it";

/// Rails that together are the whole module, the first set of which all are there. Other rails lie within these and
/// would be counted twice. From NVIDIA's Jetson Linux guide ("Power monitor") and EnergyMon's JetsonPowerRails.md.
struct WholeModule {
  std::vector<std::string> rails;
  std::string beside;  ///< a rail beside the module, such as the carrier board's, added where it is there
};
const std::array<WholeModule, 5> kModules{{
    {{"VDD_IN"}, "VDD_MUX"},                              // TX1, TX2, Xavier NX, Orin NX and Nano
    {{"POM_5V_IN"}, ""},                                  // Nano
    {{"5V_IN"}, ""},                                      // Xavier NX, by its guide
    {{"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"}, ""},  // AGX Xavier
    {{"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"}, ""},   // AGX Orin; VDDQ_VDD2_1V8AO lies within VIN_SYS_5V0
}};

using Rails = std::map<std::string, FileChannel>;

/// The layout of the mainline kernel and of L4T 34 and newer: mV and mA.
void add_new_rails(const Machine& machine, const std::string& sensor, Rails& rails) {
  for (const std::string& hwmon : names_like(machine, sensor + "/hwmon", "hwmon")) {
    const std::string folder = sensor + "/hwmon/" + hwmon;
    for (const char number : {'1', '2', '3'}) {  // the fourth is the sum of shunt voltages
      const std::string label = text_if_any(machine, fmt::format("{}/in{}_label", folder, number));
      if (label.empty() || label == "NC") continue;
      rails[label] = {.name = label,
                      .path = fmt::format("{}/curr{}_input", folder, number),
                      .unit = 1e-6,
                      .times = fmt::format("{}/in{}_input", folder, number)};
    }
  }
}

/// The layout of L4T up to 32: mW.
void add_old_rails(const Machine& machine, const std::string& sensor, Rails& rails) {
  for (const std::string& device : names_like(machine, sensor, "iio:device")) {
    const std::string folder = sensor + "/" + device;
    for (const char number : {'0', '1', '2'}) {
      const std::string name = text_if_any(machine, fmt::format("{}/rail_name_{}", folder, number));
      if (name.empty() || name == "NC") continue;
      rails[name] = {.name = name, .path = fmt::format("{}/in_power{}_input", folder, number), .unit = 1e-3};
    }
  }
}

Rails jetson_rails(const Machine& machine) {
  Rails rails;
  const std::string drivers = "/sys/bus/i2c/drivers/";
  for (const std::string& sensor : names_like(machine, drivers + "ina3221", "")) {
    add_new_rails(machine, drivers + "ina3221/" + sensor, rails);
  }
  for (const std::string& sensor : names_like(machine, drivers + "ina3221x", "")) {
    add_old_rails(machine, drivers + "ina3221x/" + sensor, rails);
  }
  return rails;
}

std::vector<FileChannel> whole_module(const Rails& rails) {
  for (const WholeModule& module : kModules) {
    if (!std::ranges::all_of(module.rails, [&](const std::string& rail) { return rails.contains(rail); })) continue;
    std::vector<FileChannel> channels;
    for (const std::string& rail : module.rails) channels.push_back(rails.at(rail));
    if (rails.contains(module.beside)) channels.push_back(rails.at(module.beside));
    return channels;
  }
  return {};
}

}  // namespace

Meters find_jetson(const Machine& machine) {
  const Rails rails = jetson_rails(machine);
  Meters found;
  if (rails.empty()) return found;
  const std::vector<FileChannel> whole = whole_module(rails);
  MeterInfo info{.name = "jetson", .source = "INA3221, rails", .device = "machine", .scope = Scope::board};
  for (const FileChannel& channel : whole) info.source += (&channel == &whole.front() ? " " : " + ") + channel.name;
  if (!whole.empty()) {
    found.push_back(file_meter(machine, std::move(info), whole, kJetsonDenied));
  } else {
    info.source = "INA3221";
    found.push_back(unusable(std::move(info),
                             "it is not known which rails of this board together are the whole; choose "
                             "single rails from this list"));
  }
  for (const auto& [name, channel] : rails) {
    found.push_back(file_meter(machine,
                               {.name = "jetson:" + name,
                                .source = "INA3221, rail " + name,
                                .device = "rail " + name,
                                .scope = Scope::rail,
                                .by_default = false},
                               {channel}, kJetsonDenied));
  }
  return found;
}

}  // namespace convoy::energy
