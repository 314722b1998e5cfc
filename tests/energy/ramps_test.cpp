// Known courses of power in faked trees: the joules are those of the closed form, and lie within the stated interval.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "core/random.hpp"
#include "core/stopwatch.hpp"
#include "energy/meters.hpp"
#include "energy/record.hpp"
#include "energy/sampler.hpp"
#include "tests/energy/fake_machine.hpp"

namespace convoy::energy {
namespace {

/// A power that rises evenly, in W.
struct Ramp {
  double begin = 5;  ///< at time 0
  double slope = 0;  ///< W in a second
  double watts(double t) const { return begin + slope * t; }
  double joules(double from, double to) const { return begin * (to - from) + 0.5 * slope * (to * to - from * from); }
};

/// In made-up time texts stay in memory; in real time a sensor rewrites its file.
void put(const FakeMachine& machine, const std::string& path, const std::string& text) {
  machine.in_memory ? machine.write(path, text) : machine.rewrite(path, text);
}

/// A sensor of a faked machine: how it writes the truth into its files.
struct Source {
  std::string name;
  std::string tree;
  std::string meter;
  double refresh;  ///< s
  /// Writes the files for a power in W and the energy up to now in J.
  std::function<void(FakeMachine&, double watts, double joules)> write;
};

void PrintTo(const Source& source, std::ostream* out) { *out << source.name; }

const std::vector<Source>& sources() {
  static const std::vector<Source> all{
      {"RaplThatWraps", "rapl", "rapl", 0.01,
       [](FakeMachine& machine, double, double joules) {
         const auto counter = [](double j, double range) { return fmt::format("{:.0f}", 1e6 * std::fmod(j, range)); };
         put(machine, "/sys/class/powercap/intel-rapl:0/energy_uj", counter(5 + 0.25 * joules, 65532.610987));
         put(machine, "/sys/class/powercap/intel-rapl:1/energy_uj", counter(65515 + 0.75 * joules, 65532.610987));
       }},
      {"Hwmon", "hwmon", "hwmon:ina219:power1", 0.05,
       [](FakeMachine& machine, double watts, double) {
         put(machine, "/sys/class/hwmon/hwmon1/power1_input", fmt::format("{:.0f}", 1e6 * watts));
       }},
      {"Jetson", "jetson-orin-nano", "jetson", 0.05,
       [](FakeMachine& machine, double watts, double) {
         const std::string folder = "/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3/";
         machine.write(folder + "curr1_input", fmt::format("{:.0f}", 1e3 * watts / 5));
       }},
      {"PixelGpu", "pixel", "odpm:gpu", 0.1,
       [](FakeMachine& machine, double, double joules) {
         machine.write("/sys/bus/iio/devices/iio:device2/energy_value",
                       fmt::format("t={0:.0f}\nCH6(T={0:.0f})[S2S_VDD_G3D], {1:.0f}", 1e3 * joules, 1e6 * joules));
       }},
      {"PhoneBattery", "pixel", "battery", 0.25,
       [](FakeMachine& machine, double watts, double joules) {
         const std::string folder = "/sys/class/power_supply/battery/";
         machine.write(folder + "current_now", fmt::format("{:.0f}", -1e6 * watts / 4));
         machine.write(folder + "charge_counter", fmt::format("{:.0f}", 3e6 - std::floor(joules / 4 / 3.6) * 1e3));
       }},
  };
  return all;
}

/// Made-up time in which a sensor shows a ramp at its refresh.
class RampTime : public FakeTime {
 public:
  RampTime(const Source& source, FakeMachine& machine, const Ramp& ramp, double phase)
      : source_(source), machine_(machine), ramp_(ramp), phase_(phase) {
    machine.in_memory = true;
  }

  void sleep_until(TimePoint time) override {
    FakeTime::sleep_until(time);
    show();
  }
  /// Brings the files up to date. A sensor has values of the last time at which it refreshed.
  void show() {
    const double number = std::floor((seconds() + phase_) / source_.refresh);
    if (number == shown_) return;
    shown_ = number;
    const double time = number * source_.refresh - phase_;
    // Of a sensor of power that its maker allows to be wrong, all values are wrong by the same factor, and each by
    // itself.
    const double factor = gain * (1 + noise * (2.0 * random.uniform() - 1));
    source_.write(machine_, factor * ramp_.watts(time), gain * (10 + ramp_.joules(0, time)));
  }

  double gain = 1;
  double noise = 0;
  Random random{1, 0};

 private:
  const Source& source_;
  FakeMachine& machine_;
  const Ramp& ramp_;
  double phase_;
  double shown_ = -1e9;
};

MeterRow taken(const FakeMachine& machine, const std::string& name) {
  for (MeterRow& row : list_meters(machine, {})) {
    if (row.info.name == name && row.meter != nullptr) return std::move(row);
  }
  fail("there is no meter {}", name);
}

/// Samples a ramp in made-up time and measures from `from` to `to`.
Measurement measured(RampTime& time, MeterRow& row, double from, double to) {
  const Clock::time_point begin = Clock::now();
  const auto at = [&](double seconds) { return begin + Clock::seconds(seconds); };
  Record record(row.info);
  while (!record.covers(at(to))) {
    sample(*row.meter, record);
    Clock::sleep_for(Clock::seconds(sampling_interval(record, 0)));
    if (time.seconds() > to + 60) break;
  }
  return record.between(at(from), at(to));
}

class Ramps : public ::testing::TestWithParam<Source> {};

TEST_P(Ramps, AreWithinHalfAPercent) {
  const Source& source = GetParam();
  const Ramp ramp{.begin = 2, .slope = 0.01 / source.refresh};
  FakeMachine machine(source.tree);
  RampTime time(source, machine, ramp, 0.3 * source.refresh);
  time.show();
  MeterRow row = taken(machine, source.meter);
  const double from = 3.3 * source.refresh;
  const double to = 500.7 * source.refresh;
  const Measurement span = measured(time, row, from, to);
  ASSERT_TRUE(span.energy) << span.refusal;
  const double truth = ramp.joules(from, to);
  EXPECT_NEAR(span.energy->value, truth, 0.005 * truth);
  EXPECT_NEAR(span.energy->value, truth, span.energy->error);
  EXPECT_LT(span.energy->error, 0.02 * truth);
  EXPECT_NEAR(span.refresh, source.refresh, 0.1 * source.refresh);
  if (source.name == "RaplThatWraps") {
    EXPECT_EQ(span.wraps, 1);
  }
}

TEST_P(Ramps, LieInTheirIntervalsInNinetyFiveOfAHundred) {
  const Source& source = GetParam();
  int within = 0;
  int trials = 0;
  for (int seed = 0; seed < 100; ++seed) {
    Random random(static_cast<std::uint64_t>(seed), 7);
    const Ramp ramp{.begin = random.uniform(1, 30), .slope = random.uniform(0, 0.05F) / source.refresh};
    FakeMachine machine(source.tree);
    RampTime time(source, machine, ramp, random.uniform() * source.refresh);
    time.random = Random(static_cast<std::uint64_t>(seed), 8);
    time.noise = 0.05;
    time.show();
    MeterRow row = taken(machine, source.meter);
    row.info.spec = 0.02;
    time.gain = 1 + row.info.spec * 0.5 * std::clamp(random.normal(), -2.0F, 2.0F);
    const double from = random.uniform(5, 10) * source.refresh;
    const double to = from + random.uniform(105, 200) * source.refresh;
    const Measurement span = measured(time, row, from, to);
    ASSERT_TRUE(span.energy) << "seed " << seed << ": " << span.refusal;
    ++trials;
    within += std::abs(span.energy->value - ramp.joules(from, to)) <= span.energy->error ? 1 : 0;
  }
  EXPECT_EQ(trials, 100);
  EXPECT_GE(within, 95);
  RecordProperty("within", within);
}

INSTANTIATE_TEST_SUITE_P(Energy, Ramps, ::testing::ValuesIn(sources()),
                         [](const auto& info) { return info.param.name; });

/// The same with a thread that writes and a thread that reads, in real time.
class RealRamps : public ::testing::TestWithParam<Source> {
 protected:
  struct Trial {
    Measurement span;
    double truth = 0;  ///< J
    double cost = 0;   ///< share of a core
  };

  static Trial run(const Source& source, const Ramp& ramp) {
    FakeMachine machine(source.tree);
    source.write(machine, ramp.watts(0), 0);
    MeterRow row = taken(machine, source.meter);
    std::atomic<bool> ending = false;
    const Clock::time_point begin = Clock::now();
    const auto since = [&](Clock::time_point time) { return std::chrono::duration<double>(time - begin).count(); };
    std::thread writer([&] {
      while (!ending) {
        const double time = since(Clock::now());
        source.write(machine, ramp.watts(time), ramp.joules(0, time));
        Clock::sleep_for(std::chrono::milliseconds(10));
      }
    });
    Trial trial;
    {
      Sampler sampler(std::move(row));
      Clock::sleep_for(std::chrono::milliseconds(300));
      const Clock::time_point from = Clock::now();
      // Where reading costs much, as under a sanitizer, it takes longer until there are enough new values.
      for (int wait = 4; !trial.span.energy && wait < 40; wait *= 2) {
        Clock::sleep_for(std::chrono::seconds(wait));
        const Clock::time_point to = Clock::now();
        // The first reading after the span completes it.
        for (bool covered = false; !covered;) {
          Clock::sleep_for(std::chrono::milliseconds(5));
          sampler.look([&](const Record& record) {
            covered = record.covers(to) || since(Clock::now()) > since(to) + 2;
            trial.span = record.between(from, to);
            EXPECT_TRUE(record.watts_now());
          });
        }
        trial.truth = ramp.joules(since(from), since(to));
        trial.cost = sampler.cost() / since(Clock::now());
      }
    }
    ending = true;
    writer.join();
    return trial;
  }
};

TEST_P(RealRamps, AreWithinHalfAPercent) {
  // On a machine that is so busy that a thread stands still, a refusal or a wider interval is right.
  constexpr int kAttempts = 5;
  Trial trial;
  for (int attempt = 0; attempt < kAttempts && (!trial.span.energy || trial.span.longest_gap > 0.1); ++attempt) {
    trial = run(GetParam(), {.begin = 4, .slope = 2});
  }
  const Measurement& span = trial.span;
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, trial.truth, 0.005 * trial.truth);
  EXPECT_NEAR(span.energy->value, trial.truth, span.energy->error);
  EXPECT_LT(trial.cost, 0.01) << "of a core";
  RecordProperty("cost", fmt::format("{:.5f}", trial.cost));
}

INSTANTIATE_TEST_SUITE_P(Energy, RealRamps, ::testing::Values(sources()[0], sources()[1]),
                         [](const auto& info) { return info.param.name; });

/// A meter that costs a tenth of a millisecond each is read less often.
TEST(SamplingInterval, KeepsToItsShareOfACore) {
  FakeTime time;
  Record record({.name = "x", .refresh = 0.02});
  EXPECT_NEAR(sampling_interval(record, 1e-6), 0.01, 1e-9);
  EXPECT_NEAR(sampling_interval(record, 1e-4), 0.02, 1e-9);
  EXPECT_NEAR(sampling_interval(record, 0.01), 2, 1e-9);
}

}  // namespace
}  // namespace convoy::energy
