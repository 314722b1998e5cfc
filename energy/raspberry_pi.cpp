#include <map>
#include <sstream>

#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

/// The chip sees most rails but not what the 5 V input feeds directly, such as USB. The board's power is a straight
/// line fitted to a meter at the input (pitop, "PMIC power rails").
constexpr double kBoardPerRails = 1.1451;
constexpr double kBoardWatts = 0.5879;

/// The product of current and voltage of all rails that have both, in W. Lines are "VDD_CORE_A current(7)=1.53A" and
/// "VDD_CORE_V volt(15)=0.72V", or, from other firmware, "VDD_CORE_A=1.53A" and "VDD_CORE_V=0.72V".
double watts_of_rails(const std::string& text) {
  std::map<std::string, double> amperes;
  std::map<std::string, double> volts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find_first_not_of(" \t");
    const auto equal = line.find('=');
    if (first == std::string::npos || equal == std::string::npos) continue;
    const std::string name = line.substr(first, line.find_first_of(" \t=", first) - first);
    std::string number = line.substr(equal + 1);
    const auto unit = number.find_first_of("AV");
    if (name.size() < 3 || unit == std::string::npos) continue;
    number.resize(unit);
    const double value = number_in(number, "vcgencmd pmic_read_adc, " + name);
    // Other firmware gives a voltage the current's name and tells them apart by the unit.
    (line[equal + 1 + unit] == 'A' ? amperes : volts)[name.substr(0, name.size() - 2)] = value;
  }
  double watts = 0;
  int rails = 0;
  for (const auto& [rail, current] : amperes) {
    const auto voltage = volts.find(rail);
    if (voltage == volts.end()) continue;
    watts += current * voltage->second;
    ++rails;
  }
  if (rails == 0) fail("vcgencmd pmic_read_adc shows no rail with both current and voltage");
  return watts;
}

class PiMeter : public Meter {
 public:
  explicit PiMeter(const Machine& machine) : machine_(machine) {}
  std::vector<Reading> read() override {
    return {{.values = {kBoardPerRails * watts_of_rails(machine_.run({"vcgencmd", "pmic_read_adc"})) + kBoardWatts}}};
  }

 private:
  const Machine& machine_;
};

}  // namespace

Meters find_raspberry_pi(const Machine& machine) {
  Meters found;
  const std::string model = text_if_any(machine, "/proc/device-tree/model");
  if (!model.starts_with("Raspberry Pi")) return found;
  MeterInfo info{.name = "pi",
                 .source = "vcgencmd pmic_read_adc, and a fit of the board's power",
                 .device = "machine",
                 .scope = Scope::board,
                 .origin = Origin::modelled,
                 .channels = {{"board"}},
                 .refresh = 0.05};
  if (!model.starts_with("Raspberry Pi 5") && !model.starts_with("Raspberry Pi 500") &&
      model.find("Compute Module 5") == std::string::npos) {
    found.push_back(unusable(std::move(info),
                             "this model has no sensor of power; measure it with a plug (--meter "
                             "shelly:ADDRESS)"));
    return found;
  }
  found.push_back(tried(std::move(info), std::make_unique<PiMeter>(machine)));
  if (found.back().meter == nullptr) {
    found.back().unusable +=
        "; install raspi-utils, and add this user to the group video: sudo usermod -aG video $USER";
  }
  return found;
}

}  // namespace convoy::energy
