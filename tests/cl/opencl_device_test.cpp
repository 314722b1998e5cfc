// The OpenCL device on every case of the list, against the reference in double; on whatever driver the machine has.

#include "cl/opencl_device.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

/// The first usable device's number; -1 and the reason where there is none.
std::pair<int, std::string> usable_device() {
  try {
    for (const ClDeviceId& id : opencl_devices()) {
      if (id.unusable.empty()) return {id.number, ""};
    }
    return {-1, "no OpenCL device can be used"};
  } catch (const Error& error) {
    return {-1, error.what()};
  }
}

/// The kernels' variant for GPUs, on whatever there is.
class OpenClAsGpu : public testing::TestWithParam<StageCase> {};

TEST_P(OpenClAsGpu, AgreesWithTheReference) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  expect_agreement(*make_opencl_device(number, {.processor = false}), GetParam().spec);
}

INSTANTIATE_TEST_SUITE_P(Cases, OpenClAsGpu,
                         testing::Values(stage_case("OneOfEverything"), stage_case("FiftyChannels"),
                                         stage_case("Stride3"), stage_case("MaxPoolOverlapping"),
                                         stage_case("AveragePoolOverlapping"), stage_case("DropoutThenPool")),
                         [](const auto& info) { return info.param.name; });

class OpenClDevices : public testing::TestWithParam<std::tuple<int, StageCase>> {};

TEST_P(OpenClDevices, AgreeWithTheReference) {
  const auto [number, why] = usable_device();
  if (number < 0) GTEST_SKIP() << why;
  const auto& [group, stage_case] = GetParam();
  const auto device = make_opencl_device(number, {.group = static_cast<std::size_t>(group)});
  expect_agreement(*device, stage_case.spec);
}

std::string case_name(const testing::TestParamInfo<OpenClDevices::ParamType>& info) {
  return fmt::format("Of{}_{}", std::get<0>(info.param), std::get<1>(info.param).name);
}

// Work-groups as the device likes them; then of an odd size, and larger than most ranges.
INSTANTIATE_TEST_SUITE_P(Groups, OpenClDevices, testing::Combine(testing::Values(0), testing::ValuesIn(stage_cases())),
                         case_name);
INSTANTIATE_TEST_SUITE_P(OddGroups, OpenClDevices,
                         testing::Combine(testing::Values(3, 64),
                                          testing::Values(stage_case("OneOfEverything"), stage_case("FiftyChannels"),
                                                          stage_case("MaxPoolOverlapping"),
                                                          stage_case("AveragePoolOverlapping"),
                                                          stage_case("DropoutThenPool"))),
                         case_name);

}  // namespace
}  // namespace convoy
