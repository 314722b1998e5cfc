// Compares the OpenCL device, on the driver of this machine, with the double-precision reference on every case of the
// list.

#include "cl/opencl_device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cl/choice.hpp"
#include "cl/clblast.hpp"
#include "cl/shard.hpp"
#include "core/error.hpp"
#include "nets/graph/net.hpp"
#include "plan/profile.hpp"
#include "tests/cl/usable_device.hpp"
#include "tests/support/host_shard.hpp"
#include "tests/support/known_activations.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

const testing::Environment* const kEnvironment =
    testing::AddGlobalTestEnvironment(std::make_unique<KeptDevices>().release());

/// PoCL 6 makes code that crashes of kernels with 16-bit storage that it does not optimise (CMakeLists.txt).
std::pair<int, std::string> usable_for_halves() {
  const auto found = usable_device();
  if (found.first >= 0 && !opencl_devices()[found.first].driver.starts_with("3.")) {
    unsetenv("POCL_EXTRA_BUILD_FLAGS");
  }
  return found;
}

/// Tests the kernels for GPUs, and copies instead of shared memory, on the device of this machine.
class OpenClAsGpu : public testing::TestWithParam<StageCase> {};

TEST_P(OpenClAsGpu, AgreesWithTheReference) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  expect_agreement(KeptDevices::with(number, {.processor = false, .shares_memory = false}), GetParam().spec);
}

INSTANTIATE_TEST_SUITE_P(Cases, OpenClAsGpu,
                         testing::Values(stage_case("OneOfEverything"), stage_case("FiftyChannels"),
                                         stage_case("Stride3"), stage_case("MaxPoolOverlapping"),
                                         stage_case("AveragePoolOverlapping"), stage_case("DropoutThenPool"),
                                         stage_case("ChannelsOfAShard"), stage_case("ResponseNormOfAShard"),
                                         stage_case("ShuffleOfAShard"), stage_case("ShardWithGate"),
                                         stage_case("GroupNormOfPartsOfGroups"), stage_case("LayerNormOfAShard"),
                                         stage_case("BilinearUneven"), stage_case("SpreadOfAShard"),
                                         stage_case("DilatedMaxPool"), stage_case("ShardWithSpatialDropout")),
                         [](const auto& info) { return info.param.name; });

/// Tests the kernels that read maps and weights as images.
class OpenClImages : public testing::TestWithParam<StageCase> {};

TEST_P(OpenClImages, AgreeWithTheReference) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  const ClSettings settings{.processor = false, .convolutions = ClConvolutions::direct, .images = true};
  if (!ClContext(opencl_devices()[number], settings).has_images()) {
    GTEST_SKIP() << "the device has no images of buffers";
  }
  expect_agreement(KeptDevices::with(number, settings), GetParam().spec);
}

INSTANTIATE_TEST_SUITE_P(Cases, OpenClImages,
                         testing::Values(stage_case("OneOfEverything"), stage_case("FortySevenFilters"),
                                         stage_case("FiftyChannels"), stage_case("Stride2"), stage_case("Stride3"),
                                         stage_case("StrideBeyondKernel"), stage_case("RectangularStride"),
                                         stage_case("KernelIsInput"), stage_case("AsymmetricPad"),
                                         stage_case("PoolThenActivation")),
                         [](const auto& info) { return info.param.name; });

class OpenClDevices : public testing::TestWithParam<std::tuple<int, StageCase>> {};

TEST_P(OpenClDevices, AgreeWithTheReference) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  const auto& [group, stage_case] = GetParam();
  expect_agreement(KeptDevices::with(number, {.group = static_cast<std::size_t>(group)}), stage_case.spec);
}

std::string case_name(const testing::TestParamInfo<OpenClDevices::ParamType>& info) {
  return fmt::format("Of{}_{}", std::get<0>(info.param), std::get<1>(info.param).name);
}

// The work-groups have the device's preferred size, then an odd size, then a size larger than most ranges.
INSTANTIATE_TEST_SUITE_P(Groups, OpenClDevices, testing::Combine(testing::Values(0), testing::ValuesIn(stage_cases())),
                         case_name);
INSTANTIATE_TEST_SUITE_P(OddGroups, OpenClDevices,
                         testing::Combine(testing::Values(3, 64),
                                          testing::Values(stage_case("OneOfEverything"), stage_case("FiftyChannels"),
                                                          stage_case("MaxPoolOverlapping"),
                                                          stage_case("AveragePoolOverlapping"),
                                                          stage_case("DropoutThenPool"))),
                         case_name);

TEST(OpenClActivations, AreThoseOfPyTorch) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  expect_known_activations(*make_opencl_device(number));
}

// ---- memory --------------------------------------------------------------------------------------------------------

TEST(OpenClMemory, IsWhatPlansCountOn) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  const double factor = make_opencl_device(number)->info().memory_factor;
  for (const ClConvolutions way : {ClConvolutions::direct, ClConvolutions::products}) {
    if (way == ClConvolutions::products && !clblast_missing().empty()) continue;
    for (const std::string net : {"lenet", "cifar10-50-500", "glyphs"}) {
      for (const int filters : {7, 50}) {
        ClShared shared(opencl_devices()[number], {.convolutions = way});
        std::vector<std::unique_ptr<Shard>> shards;
        std::vector<std::unique_ptr<DeviceTensor>> tensors;
        double counted = 0.0;
        const Cut parts = cut(read_net(source_folder() + "/nets/" + net + ".yaml"));
        for (const Stage& stage : parts.trunk) {
          ShardSpec spec{.stage = stage, .filters = {0, std::min(filters, stage.conv.filters)}, .batch = 64};
          spec.input_gradient = &stage != &parts.trunk.front();
          shards.push_back(make_cl_shard(shared, spec));
          tensors.push_back(shards.back()->make_input());
          tensors.push_back(shards.back()->make_output_gradient());
          counted += static_cast<double>(shard_bytes(stage, spec.filters.count, spec.batch, spec.input_gradient));
        }
        const std::size_t scratch = shared.column_scratch.bytes() + shared.channel_scratch.bytes();
        EXPECT_LE(static_cast<double>(shared.context.allocated() - scratch), factor * counted)
            << net << ", " << filters << " filters";
      }
    }
  }
}

// ---- products of matrices ------------------------------------------------------------------------------------------

class OpenClProducts : public testing::TestWithParam<StageCase> {};

TEST_P(OpenClProducts, AgreeWithTheReference) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  if (!clblast_missing().empty()) GTEST_SKIP() << "no CLBlast: " << clblast_missing();
  expect_agreement(KeptDevices::with(number, {.convolutions = ClConvolutions::products}), GetParam().spec);
}

INSTANTIATE_TEST_SUITE_P(Cases, OpenClProducts, testing::ValuesIn(stage_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(OpenClChoice, IsTimedOnceAndRemembered) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  if (!clblast_missing().empty()) GTEST_SKIP() << "no CLBlast: " << clblast_missing();
  const TemporaryFolder cache;
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  const ShardSpec& spec = stage_case("Plain").spec;
  ClShared shared(opencl_devices()[number], {});
  const ClChoice first = choose_convolutions(shared, spec);
  const auto kept = [&] {
    int choices = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(cache.path())) {
      std::ifstream stream(file.path());
      std::string line;
      choices += std::getline(stream, line) && line == "convolutions of" ? 1 : 0;
    }
    return choices;
  };
  EXPECT_EQ(kept(), 1);
  const ClChoice second = choose_convolutions(shared, spec);
  EXPECT_EQ(kept(), 1);
  EXPECT_EQ(first.forward, second.forward);
  EXPECT_EQ(first.input_gradient, second.input_gradient);
  EXPECT_EQ(first.filter_gradient, second.filter_gradient);
  unsetenv("XDG_CACHE_HOME");
}

// ---- 16-bit storage ------------------------------------------------------------------------------------------------

// The cases have no ReLU and no maximum, because rounding could flip these and change the gradient.
class OpenClHalf : public testing::TestWithParam<StageCase> {};

TEST_P(OpenClHalf, AgreesWithinItsRounding) {
  const auto [number, why] = usable_for_halves();
  if (number < 0) GTEST_SKIP() << why;
  expect_agreement(KeptDevices::with(number, {.convolutions = ClConvolutions::direct, .half = true}), GetParam().spec,
                   0x1.0p-10);
}

INSTANTIATE_TEST_SUITE_P(Cases, OpenClHalf,
                         testing::Values(stage_case("Plain"), stage_case("Stride3"), stage_case("RectangularStride"),
                                         stage_case("Tanh"), stage_case("LeftOverShard"),
                                         stage_case("ShardWithDropout")),
                         [](const auto& info) { return info.param.name; });

TEST(OpenClHalfStorage, AgreesInTheKernelsForGpus) {
  const auto [number, why] = usable_for_halves();
  if (number < 0) GTEST_SKIP() << why;
  Device& device =
      KeptDevices::with(number, {.processor = false, .convolutions = ClConvolutions::direct, .half = true});
  expect_agreement(device, stage_case("Stride3").spec, 0x1.0p-10);
}

TEST(OpenClHalfStorage, AgreesInImages) {
  const auto [number, why] = usable_for_halves();
  if (number < 0) GTEST_SKIP() << why;
  const ClSettings settings{.processor = false, .convolutions = ClConvolutions::direct, .images = true, .half = true};
  if (!ClContext(opencl_devices()[number], settings).has_images()) {
    GTEST_SKIP() << "the device has no images of buffers";
  }
  expect_agreement(KeptDevices::with(number, settings), stage_case("Stride3").spec, 0x1.0p-10);
}

TEST(OpenClHalfStorage, RoundsWhatConvolutionsRead) {
  const auto [number, why] = usable_for_halves();
  if (number < 0) GTEST_SKIP() << why;
  const ShardSpec& spec = stage_case("Stride3").spec;
  std::vector<Tensor> outputs;
  for (const bool half : {false, true}) {
    const auto device = make_opencl_device(number, {.convolutions = ClConvolutions::direct, .half = half});
    HostShard shard(*device, spec);
    shard.shard().set_state(random_state(spec));
    outputs.push_back(shard.forward(random_input(spec).span(), {}));
  }
  double most = 0.0;
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(outputs[0].data()[i]) - outputs[1].data()[i]));
  }
  EXPECT_GT(most, 1e-4) << "sums of 75 products of values up to 1, rounded to 11 bits, must differ";
}

}  // namespace
}  // namespace convoy
