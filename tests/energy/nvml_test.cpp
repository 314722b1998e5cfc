// NVIDIA GPUs, through a library that is loaded as the driver's is.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "energy/meters.hpp"
#include "energy/record.hpp"
#include "energy/sampler.hpp"
#include "tests/energy/fake_gpu.hpp"
#include "tests/energy/fake_machine.hpp"

namespace convoy::energy {
namespace {

using ::testing::HasSubstr;

class Nvml : public ::testing::Test {
 protected:
  Nvml() {
    machine_.library = FAKE_NVML;
    std::copy_n(gpus_, before_.size(), before_.begin());
  }
  ~Nvml() override {
    std::ranges::copy(before_, gpus_);
    *init_result_ = 0;
  }

  MeterRow row(const std::string& name) {
    for (MeterRow& row : list_meters(machine_, {})) {
      if (row.info.name == name) return std::move(row);
    }
    fail("there is no meter {}", name);
  }

  /// Runs GPU 0 for 30 s with a counter and an instant power, in W.
  Measurement run(double counter_watts, double power_watts) {
    MeterRow meter = row("nvml:0");
    Record record(meter.info);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < 600; ++i) {
      time_.pass(0.05);
      gpus_[0].millijoules += 50 * counter_watts;
      gpus_[0].instant_milliwatts = 1000 * power_watts + i;
      sample(*meter.meter, record);
    }
    return record.between(begin + std::chrono::seconds(1), begin + std::chrono::seconds(29));
  }

  FakeTime time_;
  FakeMachine machine_{"pi4"};
  void* library_ = dlopen(FAKE_NVML, RTLD_NOW);
  FakeGpu* gpus_ = static_cast<FakeGpu*>(dlsym(library_, "fake_gpus"));
  int* init_result_ = static_cast<int*>(dlsym(library_, "fake_init_result"));
  std::array<FakeGpu, 5> before_{};
};

TEST_F(Nvml, CounterWithInstantPowerAsACheck) {
  const MeterRow gpu = row("nvml:0");
  ASSERT_NE(gpu.meter, nullptr) << gpu.unusable;
  EXPECT_EQ(gpu.info.device, "gpu 0000:21:00.0");
  EXPECT_THAT(gpu.info.source, HasSubstr("Fake H100"));
  EXPECT_EQ(gpu.info.quantity, Quantity::joules);
  EXPECT_TRUE(gpu.chosen);
  const Reading reading = gpu.meter->read().at(0);
  EXPECT_EQ(reading.values, std::vector{5000.0});
  EXPECT_EQ(reading.check, 81.0);
}

TEST_F(Nvml, OlderGpusHavePowerAlone) {
  const MeterRow gpu = row("nvml:1");
  EXPECT_EQ(gpu.info.quantity, Quantity::watts);
  EXPECT_EQ(gpu.info.origin, Origin::smoothed);
  EXPECT_EQ(gpu.meter->read().at(0).values, std::vector{42.0});
  EXPECT_EQ(gpu.meter->read().at(0).check, std::nullopt);
}

TEST_F(Nvml, PartsOfAGpuAreRefused) {
  const MeterRow gpu = row("nvml:2");
  EXPECT_EQ(gpu.meter, nullptr);
  EXPECT_THAT(gpu.unusable, HasSubstr("split into parts (MIG)"));
  EXPECT_THAT(gpu.unusable, HasSubstr("nvidia-smi -mig 0"));
}

TEST_F(Nvml, AveragePowerWhereThereIsNoInstantOne) {
  EXPECT_EQ(row("nvml:3").meter->read().at(0).check, 33.0);
  EXPECT_EQ(row("nvml:4").meter->read().at(0).check, std::nullopt);
}

TEST_F(Nvml, CounterAndPowerAgree) {
  const Measurement span = run(100, 101);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, 2800, 1e-6);
  EXPECT_TRUE(span.compared);
}

TEST_F(Nvml, CounterAndPowerDisagree) {
  EXPECT_THAT(run(18.7, 32.7).refusal, HasSubstr("its two sources disagree: 52"));
}

TEST_F(Nvml, FrozenCounterIsRefused) { EXPECT_THAT(run(0, 50).refusal, HasSubstr("frozen")); }

TEST_F(Nvml, PermissionIsNamed) {
  gpus_[0].failure = 4;
  // At the start the GPU seems to have no counter, and later reading it is forbidden.
  EXPECT_EQ(row("nvml:0").info.quantity, Quantity::watts);
  gpus_[0].failure = 0;
  const MeterRow gpu = row("nvml:0");
  gpus_[0].failure = 4;
  EXPECT_THAT([&] { gpu.meter->read(); }, testing::ThrowsMessage<NotMeasurable>(HasSubstr("Insufficient Permissions")));
}

TEST_F(Nvml, DriverThatDoesNotStart) {
  *init_result_ = 9;
  EXPECT_THAT(row("nvml").unusable, HasSubstr("NVML does not start: Driver Not Loaded"));
}

TEST_F(Nvml, MissingAndStrangeLibraries) {
  machine_.library = "libno-such-nvml.so.1";
  EXPECT_THAT(list_meters(machine_, {}), testing::SizeIs(1)) << "the Raspberry Pi alone";
  machine_.library = "libm.so.6";
  EXPECT_THAT(row("nvml").unusable, HasSubstr("too old"));
}

}  // namespace
}  // namespace convoy::energy
