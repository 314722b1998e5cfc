// Faked sensors that programs under test read.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/stopwatch.hpp"
#include "tests/energy/fake_machine.hpp"

namespace convoy {

/// Faked sensors of three machines, which a thread keeps up to date: a desktop with RAPL at 20 W, a Jetson at 6 W, and
/// a phone whose GPU takes 2 W. The powers waver a little around these, as real ones do.
class FakeSensors {
 public:
  FakeSensors() : writer_([this] { write(); }) {}
  ~FakeSensors() {
    ending_ = true;
    writer_.join();
  }

  const energy::FakeMachine desktop{"rapl"};
  const energy::FakeMachine jetson{"jetson-orin-nano"};
  const energy::FakeMachine phone{"pixel"};

 private:
  void write() {
    const Stopwatch watch;
    for (int i = 0; !ending_; ++i) {
      const double joules = 20 * watch.seconds();
      desktop.rewrite("/sys/class/powercap/intel-rapl:0/energy_uj", fmt::format("{:.0f}", 5e6 + 0.5e6 * joules));
      desktop.rewrite("/sys/class/powercap/intel-rapl:1/energy_uj", fmt::format("{:.0f}", 7e6 + 0.5e6 * joules));
      jetson.rewrite("/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3/curr1_input", std::to_string(1200 + i % 2));
      // All rails of the device, in fields so wide that a text covers the one before.
      const double number = 2e6 * watch.seconds();
      phone.rewrite(
          "/sys/bus/iio/devices/iio:device2/energy_value",
          fmt::format("t={0:020.0f}\nCH5(T={0:020.0f})[S4S_VDD2H_MEM], {0:020.0f}\nCH6(T={0:020.0f})[S2S_VDD_G3D], "
                      "{0:020.0f}\nCH7(T={0:020.0f})[VSYS_PWR_DISPLAY], {0:020.0f}",
                      number));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  std::atomic<bool> ending_ = false;
  std::thread writer_;
};

/// The command with the sensors of a faked machine.
inline std::vector<std::string> on_sensors(const energy::FakeMachine& machine, std::vector<std::string> command) {
  command.insert(command.begin(),
                 {"/usr/bin/env", "CONVOY_METER_ROOT=" + machine.folder(), "CONVOY_NVML_LIBRARY=none"});
  return command;
}

}  // namespace convoy
