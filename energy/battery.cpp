#include "energy/battery.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace convoy::energy {
namespace {

bool discharges(std::string status) {
  std::ranges::transform(status, status.begin(), [](unsigned char c) { return std::tolower(c); });
  return status == "discharging";
}

class BatteryMeter : public Meter {
 public:
  explicit BatteryMeter(std::function<BatteryState()> state) : state_(std::move(state)) {}

  std::vector<Reading> read() override {
    const BatteryState state = state_();
    if (state.plugged) throw NotMeasurable("the battery is connected to power; unplug it");
    if (!discharges(state.status)) {
      throw NotMeasurable(
          fmt::format("the battery's status is '{}', and only one that is discharging tells what the machine "
                      "takes; unplug it",
                      state.status));
    }
    Reading reading{.values = {watts_of(state)}};
    if (state.charge && state.voltage) {
      if (charge_) taken_ += 3600e-6 * (*charge_ - *state.charge) * volts_of(*state.voltage);
      charge_ = state.charge;
      reading.check = taken_;
    }
    return {reading};
  }

 private:
  double watts_of(const BatteryState& state) {
    if (state.power) return 1e-6 * std::abs(*state.power);
    if (!state.current) throw NotMeasurable("the battery shows neither a power nor a current");
    if (!state.voltage) throw NotMeasurable("the battery shows a current and no voltage; update Termux:API");
    if (*state.current == 0) fail("the battery shows a current of 0");
    // Makers differ in the sign of a current out of the battery, and some show none. The battery is discharging, so the
    // first sign that is seen is that one.
    const bool negative = *state.current < 0;
    if (!negative_) negative_ = negative;
    if (negative != *negative_) throw NotMeasurable("the battery's current has turned round: it is charged; unplug it");
    return amperes_of(*state.current) * volts_of(*state.voltage);
  }

  std::function<BatteryState()> state_;
  std::optional<bool> negative_;
  std::optional<double> charge_;
  double taken_ = 0;
};

}  // namespace

double amperes_of(double current) {
  const double size = std::abs(current);
  return size < 10000 ? 1e-3 * size : 1e-6 * size;
}

double volts_of(double voltage) { return voltage < 100000 ? 1e-3 * voltage : 1e-6 * voltage; }

MeterRow battery_meter(MeterInfo info, std::function<BatteryState()> state) {
  info.device = "machine";
  info.scope = Scope::board;
  info.quantity = Quantity::watts;
  info.channels = {{"battery"}};
  return tried(std::move(info), std::make_unique<BatteryMeter>(std::move(state)));
}

BatteryFiles battery_files(const Machine& machine, const std::string& name) {
  const std::string folder = kPowerSupply + "/" + name + "/";
  const auto if_there = [&](const char* file) {
    return text_if_any(machine, folder + file).empty() ? std::string() : folder + file;
  };
  BatteryFiles files{.status = folder + "status",
                     .current = if_there("current_now"),
                     .voltage = if_there("voltage_now"),
                     .power = if_there("power_now"),
                     .charge = if_there("charge_counter"),
                     .online = {}};
  for (const std::string& other : names_like(machine, kPowerSupply, "")) {
    const std::string type = text_if_any(machine, kPowerSupply + "/" + other + "/type");
    if (!type.empty() && type != "Battery") files.online.push_back(kPowerSupply + "/" + other + "/online");
  }
  return files;
}

BatteryState battery_in_sysfs(const Machine& machine, const BatteryFiles& files, const std::string& if_denied) {
  BatteryState state;
  try {
    state.status = machine.read(files.status);
  } catch (const Unreadable& error) {
    throw NotMeasurable(fmt::format("{}{}", error.what(), error.denied() ? "; " + if_denied : ""));
  }
  for (const std::string& online : files.online) state.plugged = state.plugged || text_if_any(machine, online) == "1";
  const auto number = [&](const std::string& file) {
    return file.empty() ? std::nullopt : number_if_any(machine, file);
  };
  state.current = number(files.current);
  state.voltage = number(files.voltage);
  state.power = number(files.power);
  state.charge = number(files.charge);
  return state;
}

}  // namespace convoy::energy
