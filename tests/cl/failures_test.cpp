// Tests the errors for bad drivers and devices, with a fake library in the place of OpenCL's.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cl/opencl_device.hpp"
#include "core/error.hpp"
#include "devices/registry.hpp"
#include "tests/cl/fake_opencl.hpp"
#include "tests/cl/usable_device.hpp"
#include "tests/support/host_shard.hpp"
#include "tests/support/process.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OpenClFailures : public testing::Test {
 protected:
  /// Waits for the callbacks of a hung device, which come late.
  void TearDown() override { behave({}); }

  void behave(const FakeOpenCl& behaviour) {
    setenv("CONVOY_OPENCL_LIBRARY", FAKE_OPENCL, 1);
    static void* const library = dlopen(FAKE_OPENCL, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    reinterpret_cast<decltype(&fake_opencl_behave)>(dlsym(library, "fake_opencl_behave"))(&behaviour);
  }

  /// Makes a device, compiles a shard and runs its passes. Returns the text of the Error that ends them.
  template <class Kind = Error>
  static std::string error_of_passes(ClSettings settings = {}) {
    try {
      settings.patience = std::chrono::milliseconds(50);
      const auto device = make_opencl_device(0, settings);
      const ShardSpec spec = stage_case("MaxPool").spec;
      HostShard shard(*device, spec);
      shard.forward(random_input(spec).span(), {.training = true});
      shard.backward(random_output_gradient(spec).span());
      return "no error";
    } catch (const Kind& error) {
      return error.what();
    }
  }
};

TEST_F(OpenClFailures, NoneWhereTheLibraryWorks) {
  behave({});
  EXPECT_EQ(error_of_passes(), "no error");
}

TEST_F(OpenClFailures, NoDriver) {
  behave({.no_driver = true});
  EXPECT_THAT(error_of_passes(), HasSubstr("no driver"));
  bool listed = false;
  for (const DeviceRow& row : list_devices()) {
    if (row.name == "opencl") listed = row.unusable.find("no driver") != std::string::npos;
  }
  EXPECT_TRUE(listed);
}

TEST_F(OpenClFailures, AnOldVersion) {
  behave({.old_version = true});
  EXPECT_THAT(error_of_passes(), AllOf(HasSubstr("OpenCL 1.1"), HasSubstr("Fake GPU")));
}

TEST_F(OpenClFailures, NoCompiler) {
  behave({.no_compiler = true});
  EXPECT_THAT(error_of_passes(), HasSubstr("no compiler"));
}

TEST_F(OpenClFailures, NoSuchDevice) {
  behave({});
  EXPECT_THAT([] { make_device("opencl:7", {.threads = 1}); },
              testing::ThrowsMessage<Error>(HasSubstr("no device opencl:7")));
  EXPECT_THAT([] { make_device("opencl:x", {.threads = 1}); },
              testing::ThrowsMessage<Error>(HasSubstr("opencl:NUMBER")));
}

TEST_F(OpenClFailures, TheCompilerRefuses) {
  behave({.build_fails = true});
  EXPECT_THAT(error_of_passes(), AllOf(HasSubstr("CL_BUILD_PROGRAM_FAILURE"), HasSubstr("knows no vload16")));
}

TEST_F(OpenClFailures, OutOfMemory) {
  behave({.out_of_memory = true});
  EXPECT_THAT(error_of_passes(),
              AllOf(HasSubstr("CL_MEM_OBJECT_ALLOCATION_FAILURE"), HasSubstr("MiB"), HasSubstr("Fake GPU")));
}

TEST_F(OpenClFailures, ABufferTooLarge) {
  behave({.largest_buffer = 512});
  EXPECT_THAT(error_of_passes(), AllOf(HasSubstr("in one piece"), HasSubstr("smaller batch"), HasSubstr("stage ")));
}

TEST_F(OpenClFailures, ImagesThatAreRefusedAreNotChosen) {
  behave({.has_images = true});
  const TemporaryFolder cache;
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  EXPECT_EQ(error_of_passes(), "no error");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_THAT(error_of_passes({.convolutions = ClConvolutions::direct, .images = true}),
              AllOf(HasSubstr("image of"), HasSubstr("CL_INVALID_OPERATION"), HasSubstr("Fake GPU")));
}

TEST_F(OpenClFailures, AKernelThatHangs) {
  behave({.kernels_hang = true});
  EXPECT_THAT(error_of_passes<DeviceLost>(), AllOf(HasSubstr("did not complete within 0.05 s"), HasSubstr("Fake GPU")));
}

TEST_F(OpenClFailures, AKernelThatHangsOnAProcessor) {
  behave({.kernels_hang = true});
  EXPECT_THAT(error_of_passes<DeviceLost>({.processor = true}), HasSubstr("did not complete within 0.05 s"));
}

TEST_F(OpenClFailures, AKernelThatFails) {
  behave({.kernels_fail = true});
  EXPECT_THAT(error_of_passes<DeviceLost>(), AllOf(HasSubstr("CL_OUT_OF_RESOURCES"), HasSubstr("pack")));
}

TEST_F(OpenClFailures, ADeviceThatVanishes) {
  behave({.vanishes_after = 3});
  EXPECT_THAT(error_of_passes<DeviceLost>(), HasSubstr("CL_DEVICE_NOT_AVAILABLE"));
}

// ---- speed ---------------------------------------------------------------------------------------------------------

/// Returns what the third of three training steps asks of the device.
ClCounts third_step(const ClSettings& settings, const ShardSpec& spec) {
  const auto device = make_opencl_device(0, settings);
  HostShard shard(*device, spec);
  ClCounts before;
  for (int step = 0; step < 3; ++step) {
    before = counts_of(*device);
    shard.forward(random_input(spec).span(), {.training = true});
    shard.backward(random_output_gradient(spec).span());
    shard.shard().update({.learning_rate = 0.1F});
    device->finish();
  }
  ClCounts after = counts_of(*device);
  after.launches -= before.launches;
  return after;
}

/// Each wait would take 30 s if it relied on the driver's thread, and the test would be stopped.
TEST_F(OpenClFailures, NoneWhereTheDriverTellsLate) {
  behave({.calls_late = true});
  for (const bool processor : {false, true}) {
    EXPECT_GT(third_step({.processor = processor}, stage_case("MaxPool").spec).launches, 0U);
  }
}

/// Every launch of the fake device takes as long, whether it has few work-items or many, as short launches on GPUs do.
/// The update of few biases must not have the update of many weights cut.
TEST_F(OpenClFailures, ShortLaunchesDoNotCutLongOnes) {
  behave({.largest_buffer = std::uint64_t{1} << 24});
  const Stage stage{.name = "wide",
                    .channels = 200,
                    .height = 4,
                    .width = 4,
                    .conv = {.filters = 100, .kernel_h = 3, .kernel_w = 3},
                    .after = {BatchNorm{.name = "norm"}}};
  const ShardSpec spec{.stage = stage, .filters = {0, 100}, .batch = 2};
  constexpr std::chrono::duration<double> kNever{3600.0};
  constexpr std::chrono::duration<double> kShort{1e-5};  // ten launches of the fake device
  const auto launches = [&](std::chrono::duration<double> launch_time) {
    return third_step({.convolutions = ClConvolutions::direct, .launch_time = launch_time}, spec).launches;
  };
  EXPECT_EQ(launches(kShort), launches(kNever));
}

/// Work-groups of a GPU have 64 work-items, and maps may have fewer columns.
TEST_F(OpenClFailures, SmallMapsFillWorkGroups) {
  behave({});
  const auto device = make_opencl_device(0);
  for (const Shape& shape : {Shape{4, 64, 1, 1}, Shape{4, 64, 7, 7}, Shape{3, 5, 9, 70}}) {
    const auto from = device->make_tensor(shape);
    const auto to = device->make_tensor(shape);
    const auto groups = [&] {
      const std::size_t before = counts_of(*device).groups;
      to->take_channels(*from, {0, shape.c}, 0, false);
      return counts_of(*device).groups - before;
    };
    groups();
    EXPECT_LE(groups() * 64, 2 * shape.size()) << shape.h << " rows of " << shape.w;
  }
}

}  // namespace
}  // namespace convoy
