// Tests the table of devices, sizes of memory, and the timing of devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/error.hpp"
#include "devices/calibrate.hpp"
#include "devices/library_threads.hpp"
#include "devices/pass_times.hpp"
#include "devices/registry.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

TEST(Registry, EveryRowIsUsableOrSaysWhyNot) {
  bool reference = false;
  for (const DeviceRow& row : list_devices()) {
    EXPECT_FALSE(row.description.empty()) << row.name;
    reference = reference || row.name == "reference";
    if (row.unusable.empty()) {
      const auto device = make_device(row.name, {.threads = 1});
      EXPECT_GE(device->info().threads, 1) << row.name;
      // Without oneDNN, "cpu" is the Eigen device.
      if (row.name != "cpu") {
        EXPECT_EQ(device->info().name, row.name);
      }
    } else {
      EXPECT_THROW(make_device(row.name, {.threads = 1}), Error) << row.name;
    }
  }
  EXPECT_TRUE(reference);
  EXPECT_NE(make_device("auto", {.threads = 1}), nullptr);
}

TEST(Registry, UnknownNamesListTheKnownOnes) {
  try {
    make_device("abacus", {.threads = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("abacus"));
    EXPECT_THAT(error.what(), HasSubstr("reference"));
  }
}

TEST(Registry, ListsOfDevicesAreSplit) {
  using testing::ElementsAre;
  EXPECT_THAT(split_devices("cpu"), ElementsAre("cpu"));
  EXPECT_THAT(split_devices("opencl:0,cpu"), ElementsAre("opencl:0", "cpu"));
  EXPECT_THAT(split_devices("cpu,check:cpu,eigen,opencl:1"), ElementsAre("cpu", "check:cpu,eigen", "opencl:1"));
  EXPECT_THAT(split_devices("check:cpu,eigen"), ElementsAre("check:cpu,eigen"));
  for (const char* list : {"", ",cpu", "cpu,", "cpu,,eigen", "cpu,cpu"})
    EXPECT_THROW(split_devices(list), Error) << list;
}

TEST(Registry, ACheckNamesTwoDevices) {
  EXPECT_EQ(make_device("check:reference,eigen", {.threads = 1})->info().name, "check:reference,eigen");
  for (const char* name : {"check:cpu", "check:cpu,", "check:cpu,abacus", "check:", "check:cpu,eigen,cpu"}) {
    EXPECT_THROW(make_device(name, {.threads = 1}), Error) << name;
  }
}

/// The environment variable that PoCL reads.
std::string pocl_affinity() {
  setenv("OMP_WAIT_POLICY", "passive", 0);  // avoids that the program starts itself again
  settle_library_threads(nullptr);
  const char* value = std::getenv("POCL_AFFINITY");
  const std::string text = value == nullptr ? "" : value;
  unsetenv("POCL_AFFINITY");
  return text;
}

TEST(LibraryThreads, OfPoclHaveACoreEachUnlessTheUserOrTheSystemChose) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2 || CPU_COUNT(&all) < sysconf(_SC_NPROCESSORS_ONLN))
    GTEST_SKIP() << "this process may not use all cores";
  unsetenv("POCL_AFFINITY");
  EXPECT_EQ(pocl_affinity(), "1");
  setenv("POCL_AFFINITY", "0", 1);
  EXPECT_EQ(pocl_affinity(), "0");
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(pocl_affinity(), "");
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

class CudaModule : public testing::Test {
 protected:
  void SetUp() override {
    setenv("CONVOY_CUDA_MODULE", "/nowhere/convoy-cuda.so", 1);
    for (const DeviceRow& row : list_devices()) {
      if (row.unusable == "this program was built without CUDA's compiler") GTEST_SKIP() << row.unusable;
    }
  }
  void TearDown() override { unsetenv("CONVOY_CUDA_MODULE"); }

  static void expect_refusal(const std::string& why) {
    EXPECT_THAT([] { make_device("cuda:0", {}); }, testing::ThrowsMessage<Error>(HasSubstr(why)));
  }
};

TEST_F(CudaModule, ThatIsMissingIsNamed) { expect_refusal("was not found in /nowhere/convoy-cuda.so"); }

TEST_F(CudaModule, ThatIsNoLibraryIsRefused) {
  setenv("CONVOY_CUDA_MODULE", "/proc/self/cmdline", 1);
  expect_refusal("/proc/self/cmdline cannot be loaded");
}

#ifdef CUDA_MODULE
TEST_F(CudaModule, IsLoadedAndSaysWhatThereIs) {
  // A folder above the tests.
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  setenv("CONVOY_CUDA_MODULE", (tests.parent_path() / CUDA_MODULE).c_str(), 1);
  bool found = false;
  for (const DeviceRow& row : list_devices()) {
    if (!row.name.starts_with("cuda")) continue;
    found = true;
    EXPECT_THAT(row.unusable,
                testing::AnyOf("", HasSubstr("CUDA finds no usable GPU"), HasSubstr("compute capability")));
  }
  EXPECT_TRUE(found);
}
#endif

TEST(Memory, IsReadInAllUsualForms) {
  EXPECT_EQ(parse_memory("1000000"), 1000000U);
  EXPECT_EQ(parse_memory("3K"), 3U << 10);
  EXPECT_EQ(parse_memory("500MiB"), 500U << 20);
  EXPECT_EQ(parse_memory("2G"), std::size_t{2} << 30);
  EXPECT_EQ(parse_memory("1TiB"), std::size_t{1} << 40);
  EXPECT_EQ(memory_text(1023), "1023 bytes");
  EXPECT_EQ(memory_text(1024), "1 KiB");
  EXPECT_EQ(memory_text((10U << 20) - 1), "10239 KiB");
  EXPECT_EQ(memory_text(std::size_t{10} << 30), "10240 MiB");
  EXPECT_EQ(parse_memory("1.5GiB"), (std::size_t{3} << 30) / 2);
}

TEST(Memory, OtherTextsAreRefused) {
  for (const char* text : {"", "much", "-1G", "0", "1X", "1G1", "nan", "inf", "1e30G", "G", "1 GB please"}) {
    EXPECT_THROW(parse_memory(text), Error) << text;
  }
}

TEST(Calibration, TimesASmallAMiddleAndTheWhole) {
  Stage stage{.name = "c", .channels = 1, .height = 8, .width = 8, .conv = {.filters = 100}, .after = {}};
  const TimingEffort thorough = timing_effort(16);
  const TimingEffort quick = timing_effort(17);
  EXPECT_THAT(calibration_filters(stage, thorough), testing::ElementsAre(16, 50, 100));
  EXPECT_THAT(calibration_filters(stage, quick), testing::ElementsAre(25, 100));
  stage.conv.filters = 20;
  EXPECT_THAT(calibration_filters(stage, thorough), testing::ElementsAre(16, 20));
  EXPECT_THAT(calibration_filters(stage, quick), testing::ElementsAre(16, 20));
  stage.conv.filters = 3;
  EXPECT_THAT(calibration_filters(stage, thorough), testing::ElementsAre(3));
  EXPECT_THAT(calibration_filters(stage, quick), testing::ElementsAre(3));
  EXPECT_EQ(calibration_batch(1), 1);
  EXPECT_EQ(calibration_batch(64), 16);
  EXPECT_EQ(calibration_batch(4096), 16);
}

TEST(Calibration, LargerShardsTakeLonger) {
  const auto device = make_device("reference", {.threads = 1});
  const Stage stage{.name = "c",
                    .channels = 4,
                    .height = 16,
                    .width = 16,
                    .conv = {.filters = 64, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                    .after = {Activation::relu}};
  const double small = time_shard(*device, {.stage = stage, .filters = {0, 1}, .batch = 2}, 3).seconds();
  const double large = time_shard(*device, {.stage = stage, .filters = {0, 64}, .batch = 2}, 3).seconds();
  EXPECT_GT(small, 0.0);
  EXPECT_GT(large, small);
}

TEST(PassTimes, AreMediansOnAProcessorOfTheirOwn) {
  PassTimes times(2, 1);
  for (const double seconds : {0.012, 0.011, 0.015}) {
    times.add(0, {.passed = seconds, .computed = 0.01});
    times.add(1, {.passed = 0.03, .computed = 0.03});
    times.add_between({.passed = 0.2, .computed = 0.2});
  }
  EXPECT_DOUBLE_EQ(times.typical(0), 0.012);
  EXPECT_DOUBLE_EQ(times.typical(1), 0.03);
}

TEST(PassTimes, CountWhatAQuotaTakesWhereverItTookIt) {
  PassTimes times(2, 1);
  for (int round = 0; round < 5; ++round) {
    times.add(0, {.passed = 0.001, .computed = 0.001});
    times.add(1, {.passed = round == 0 ? 0.018 : 0.003, .computed = 0.003});
    times.add_between(
        {.passed = 0.013, .computed = 0.004});  // in all, 100 ms have passed and 40 ms were spent computing
  }
  EXPECT_TRUE(times.shared());
  EXPECT_NEAR(times.typical(0), 0.0025, 1e-9);
  EXPECT_NEAR(times.typical(1), 0.0075, 1e-9);
}

TEST(PassTimes, OfADeviceOfItsOwnAreNotThoseOfTheThreadThatWaits) {
  PassTimes times(1, 1);
  for (int round = 0; round < 5; ++round) {
    times.add(0, {.passed = 0.02, .computed = 0.001});
    times.add_between({.passed = 0.008, .computed = 0.004});
  }
  EXPECT_FALSE(times.shared());
  EXPECT_DOUBLE_EQ(times.typical(0), 0.02);
}

TEST(PassTimes, OfSeveralThreadsThatWaitForEachOtherAreMedians) {
  PassTimes times(1, 2);
  for (int round = 0; round < 5; ++round) {
    times.add(0, {.passed = 0.02, .computed = 0.016});
    times.add_between({.passed = 0.004, .computed = 0.004});
  }
  EXPECT_FALSE(times.shared());
  EXPECT_DOUBLE_EQ(times.typical(0), 0.02);
}

}  // namespace
}  // namespace convoy
