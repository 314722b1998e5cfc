// The energy of a run is split by what the program did, and says why where it is not measurable.
#include "energy/run_energy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "energy/meters.hpp"
#include "tests/energy/fake_machine.hpp"

namespace convoy::energy {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

MeterRow row_named(const FakeMachine& machine, const std::string& name) {
  for (MeterRow& row : list_meters(machine, {})) {
    if (row.info.name == name) return std::move(row);
  }
  fail("there is no meter {}", name);
}

/// RAPL counters at a power that a test sets, kept up to date by a thread.
class Packages {
 public:
  Packages() {
    show(12);
    writer_ = std::thread([this] { write(); });
  }
  ~Packages() {
    ending_ = true;
    writer_.join();
  }
  FakeMachine machine{"rapl"};
  std::atomic<double> watts = 10;

 private:
  void write() {
    double joules = 12;
    for (Clock::time_point last = Clock::now(); !ending_;) {
      std::this_thread::sleep_for(5ms);
      const Clock::time_point now = Clock::now();
      joules += watts * std::chrono::duration<double>(now - last).count();
      last = now;
      show(joules);
    }
  }
  void show(double joules) const {
    machine.rewrite("/sys/class/powercap/intel-rapl:0/energy_uj", fmt::format("{:.0f}", 0.5e6 * joules));
    machine.rewrite("/sys/class/powercap/intel-rapl:1/energy_uj", fmt::format("{:.0f}", 0.5e6 * joules));
  }
  std::atomic<bool> ending_ = false;
  std::thread writer_;
};

TEST(RunEnergy, IsSplitByWhatTheProgramDid) {
  Packages packages;
  Sampler sampler(row_named(packages.machine, "rapl"));
  const Clock::time_point begin = Clock::now();
  RunEnergy run(&sampler, "");
  packages.watts = 3;
  EXPECT_FALSE(run.report()) << "before the run begins";
  bool enough = false;
  for (int rounds = 0; rounds < 10 && !enough; ++rounds) {
    std::this_thread::sleep_for(1500ms);
    sampler.look([&](const Record& record) { enough = record.between(begin, Clock::now()).energy.has_value(); });
  }
  run.end_idle();
  run.begin();
  Clock::time_point last = Clock::now();
  const auto spend = [&](double watts, double compute, double transfer, double wait) {
    packages.watts = watts;
    // Much longer than the time between two readings, within which the split follows the times.
    std::this_thread::sleep_for(200ms);
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last).count();
    last = now;
    run.count(compute * seconds, transfer * seconds, wait * seconds);
  };
  MachineEnergy energy;
  // Where reading costs much, as under a sanitizer, it takes longer until there are enough new values.
  for (int rounds = 0; rounds < 10 && !energy.measured(); ++rounds) {
    for (int i = 0; i < 6; ++i) {
      spend(30, 0.5, 0.5, 0);
      spend(6, 0, 0, 1);
    }
    std::this_thread::sleep_for(100ms);
    run.count(0, 0, 0);
    energy = run.report().value();
  }
  ASSERT_TRUE(energy.measured()) << energy.refusal;
  EXPECT_EQ(energy.meter, "rapl");
  EXPECT_EQ(energy.scope, "package");
  EXPECT_EQ(energy.origin, "measured");
  EXPECT_GT(energy.seconds, 1.5);
  EXPECT_NEAR(energy.joules(), 18 * energy.seconds, 0.15 * 18 * energy.seconds);
  // Waiting has a power of its own, although it takes as long.
  EXPECT_NEAR(energy.wait / energy.joules(), 6.0 / 36, 0.1);
  EXPECT_NEAR(energy.compute, energy.transfer, 0.01 * energy.compute);
  EXPECT_NEAR(energy.idle_watts, 3, 0.3);
  EXPECT_GT(energy.idle_error, 0);
}

/// A meter in made-up time whose counter wraps at 50 J, and which nobody reads for a while.
class WrappingMeter : public Meter {
 public:
  std::vector<Reading> read() override {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds > 1.5 && seconds < 2) std::this_thread::sleep_for(500ms);
    return {{.values = {std::fmod(40 * seconds, 50)}}};
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// A reading that takes long is a gap; what is between two readings is in the report, besides the refresh.
TEST(RunEnergy, ReportsWrapsAndGaps) {
  Sampler sampler({.info = {.name = "wrapping",
                            .scope = Scope::board,
                            .quantity = Quantity::joules,
                            .channels = {{.name = "all", .wraps_at = 50}}},
                   .meter = std::make_unique<WrappingMeter>(),
                   .unusable = ""});
  RunEnergy run(&sampler, "");
  run.begin();
  MachineEnergy energy;
  for (int rounds = 0; rounds < 20 && (!energy.measured() || energy.seconds < 3); ++rounds) {
    std::this_thread::sleep_for(550ms);
    run.count(0.55, 0, 0);
    energy = run.report().value();
  }
  ASSERT_TRUE(energy.measured()) << energy.refusal;
  EXPECT_NEAR(energy.joules(), 40 * energy.seconds, 0.05 * 40 * energy.seconds);
  EXPECT_NEAR(static_cast<double>(energy.wraps), 40 * energy.seconds / 50, 1.1);
  EXPECT_GE(energy.gaps, 1U);
  EXPECT_GT(energy.gap_seconds, 0.4);
  EXPECT_GT(energy.refresh, 0.001);
  EXPECT_LT(energy.refresh, 0.2);
}

/// While a meter tells nothing, a run goes on for hours, and its split must neither grow nor get lost.
TEST(RunEnergy, JoinsTheTimesOfALongSilence) {
  FakeTime time;
  Packages packages;
  Sampler sampler(row_named(packages.machine, "rapl"));
  RunEnergy run(&sampler, "");
  run.begin();
  for (int i = 0; i < 100000; ++i) {
    time.pass(0.01);
    run.count(0.004, 0.001, 0.005);
  }
  EXPECT_LE(run.slots(), 4096U);
  EXPECT_GE(run.slots(), 1024U);
}

TEST(RunEnergy, RefusalHasNoNumbers) {
  FakeMachine machine("rapl");  // its counters are frozen
  Sampler sampler(row_named(machine, "rapl"));
  RunEnergy run(&sampler, "");
  run.begin();
  std::this_thread::sleep_for(300ms);
  run.count(0.3, 0, 0);
  const MachineEnergy energy = run.report().value();
  EXPECT_FALSE(energy.measured());
  EXPECT_FALSE(energy.refusal.empty());
  EXPECT_EQ(energy.joules(), 0);
  EXPECT_EQ(energy.seconds, 0);
}

TEST(RunEnergy, WithoutAMeterSaysWhy) {
  RunEnergy run(nullptr, "no meter");
  run.end_idle();
  run.begin();
  run.count(1, 1, 1);
  const MachineEnergy energy = run.report().value();
  EXPECT_FALSE(energy.measured());
  EXPECT_EQ(energy.refusal, "no meter");
  RunEnergy silent(nullptr, "");
  silent.begin();
  EXPECT_FALSE(silent.report());
}

TEST(MeterForMember, IsTheWholeMachinesElseTheDevices) {
  const auto meter = [](const FakeMachine& machine, const std::string& named, bool on_gpu) {
    const MemberMeter found = meter_for_member(machine, named, on_gpu);
    return found.row ? found.row->info.name : found.why;
  };
  const FakeMachine phone("pixel");
  EXPECT_EQ(meter(phone, "", true), "battery");
  EXPECT_EQ(meter(phone, "odpm:gpu", true), "odpm:gpu");
  const FakeMachine charging("phone-charging");
  EXPECT_THAT(meter(charging, "", true), HasSubstr("no meter that can be used"));
  EXPECT_THAT([&] { meter(charging, "battery", true); },
              testing::ThrowsMessage<Error>(HasSubstr("--meter battery: the battery's status is 'Charging'")));
  EXPECT_EQ(meter(FakeMachine("rapl"), "", false), "rapl");
  EXPECT_THAT(meter(FakeMachine("rapl"), "", true), HasSubstr("no meter that can be used"));
  EXPECT_THAT(meter(FakeMachine("gpus"), "", true), HasSubstr("several GPUs"));
  EXPECT_EQ(meter(FakeMachine("gpus"), "amdgpu:1", true), "amdgpu:1");
}

}  // namespace
}  // namespace convoy::energy
