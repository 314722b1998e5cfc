#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/text.hpp"
#include "energy/battery.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

using Json = nlohmann::json;

const std::string kPhoneBattery = kPowerSupply + "/battery";

std::optional<double> number_of(const Json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number()) return std::nullopt;
  return field->get<double>();
}

std::string text_in(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field == object.end() || !field->is_string() ? "" : printable(field->get<std::string>(), 40);
}

BatteryState state_of_termux(const std::string& answer) {
  const Json object = Json::parse(answer, nullptr, false);
  if (!object.is_object()) fail("termux-battery-status: expected a JSON object instead of '{}'", printable(answer, 40));
  const std::string plugged = text_in(object, "plugged");
  return {.status = text_in(object, "status"),
          .plugged = !plugged.empty() && plugged != "UNPLUGGED",
          .current = number_of(object, "current"),
          .voltage = number_of(object, "voltage"),
          .power = std::nullopt,
          .charge = number_of(object, "charge_counter")};
}

/// The words of Android's BatteryManager for the numbers of a status.
std::string status_of(double number) {
  constexpr std::array<const char*, 6> kWords{"", "Unknown", "Charging", "Discharging", "Not charging", "Full"};
  return number >= 1 && number <= 5 ? kWords[number] : "Unknown";
}

/// Reads lines such as "  status: 3" and "  AC powered: false".
BatteryState state_of_dumpsys(const std::string& answer) {
  BatteryState state{.status = "Unknown"};
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find_first_not_of(" \t");
    const auto colon = line.find(": ");
    if (first == std::string::npos || colon == std::string::npos) continue;
    const std::string name = line.substr(first, colon - first);
    const std::string text = line.substr(colon + 2, line.find_last_not_of(" \t\r") - colon - 1);
    const std::string where = "dumpsys battery, " + name;
    if (name.ends_with("powered") && text == "true") state.plugged = true;
    if (name == "status") state.status = status_of(number_in(text, where));
    if (name == "current now") state.current = number_in(text, where);
    if (name == "voltage") state.voltage = number_in(text, where);
    if (name == "Charge counter") state.charge = number_in(text, where);
  }
  // Android reports 0 where it does not know the charge.
  if (state.charge && *state.charge <= 0) state.charge.reset();
  return state;
}

/// Where an app may not even list the folder, the status alone is looked for, which says so.
BatteryFiles battery_files_if_allowed(const Machine& machine) {
  try {
    return battery_files(machine, "battery");
  } catch (const Unreadable&) {
    return {.status = kPhoneBattery + "/status"};
  }
}

MeterInfo battery_info(const char* name, const char* source) { return {.name = name, .source = source}; }

}  // namespace

Meters find_android_battery(const Machine& machine) {
  Meters found;
  // Linux names a laptop's batteries otherwise, such as BAT0. An app may not look there at all.
  const bool android =
      !text_if_any(machine, "/system/build.prop").empty() || !names_like(machine, "/system", "bin").empty();
  bool there = false;
  try {
    machine.read(kPhoneBattery + "/status");
    there = true;
  } catch (const Unreadable& error) {
    there = error.denied() && android;
  }
  if (there) {
    found.push_back(battery_meter(battery_info("battery", "the battery's current and voltage in /sys"),
                                  [&machine, files = battery_files_if_allowed(machine)] {
                                    return battery_in_sysfs(
                                        machine, files, "apps may not read it; install Termux:API, or use adb's shell");
                                  }));
  }
  if (!android) return found;
  found.push_back(battery_meter(battery_info("termux-battery", "termux-battery-status"),
                                [&machine] { return state_of_termux(machine.run({"termux-battery-status"})); }));
  if (found.back().meter == nullptr && found.back().unusable.find("not there") != std::string::npos) {
    found.back().unusable += "; install the app Termux:API, and run: pkg install termux-api";
  }
  found.push_back(battery_meter(battery_info("dumpsys-battery", "dumpsys battery"), [&machine] {
    return state_of_dumpsys(machine.run({"dumpsys", "battery"}));
  }));
  return found;
}

}  // namespace convoy::energy
