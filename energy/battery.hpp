// What all ways to read a battery share: units and signs that differ between makers, and when a battery tells nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "energy/machine.hpp"
#include "energy/meter.hpp"

namespace convoy::energy {

inline const std::string kPowerSupply = "/sys/class/power_supply";

/// A battery's state as a source shows it. Numbers are as they stand there.
struct BatteryState {
  std::string status;  ///< "Discharging", "DISCHARGING", "Charging", "Full", ...
  bool plugged = false;
  std::optional<double> current;  ///< uA or mA, with the sign of the maker's choice
  std::optional<double> voltage;  ///< uV or mV
  std::optional<double> power;    ///< uW
  std::optional<double> charge;   ///< uAh, what is left in the battery
};

/// Converts a battery's current to A, without its sign. The kernel's unit is the uA, and some makers give mA. A phone
/// that computes takes more than 10 mA and less than 10 A, so a number below 10000 is in mA.
double amperes_of(double current);
/// Converts a battery's voltage to V. Numbers below 100000 are in mV; no battery has 100 V, nor less than 0.1 V.
double volts_of(double voltage);

/// Returns the row of a meter that calls `state` for each reading. The check is the charge that has left the battery,
/// at the voltage of the time.
MeterRow battery_meter(MeterInfo info, std::function<BatteryState()> state);

/// The files of a battery in /sys/class/power_supply, looked up once, because most batteries lack some of them.
struct BatteryFiles {
  std::string status;
  std::string current;  ///< these four are empty where there is no such file
  std::string voltage;
  std::string power;
  std::string charge;
  std::vector<std::string> online;  ///< of what feeds the machine besides the battery
};
BatteryFiles battery_files(const Machine& machine, const std::string& name);
/// Returns the battery's state. Throws NotMeasurable, with `if_denied`, where it cannot be read.
BatteryState battery_in_sysfs(const Machine& machine, const BatteryFiles& files, const std::string& if_denied);

}  // namespace convoy::energy
