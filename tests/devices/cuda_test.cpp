// Compares an NVIDIA GPU, with cuDNN and with cuBLAS, with the double-precision reference on every case of the list.
// Without a GPU, each test is skipped with the reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices/registry.hpp"
#include "tests/support/known_activations.hpp"
#include "tests/support/stage_cases.hpp"
#include "tests/support/tensors.hpp"

namespace convoy {
namespace {

/// The reason why the device cannot be used; empty if it can.
std::string why_unusable(const std::string& name) {
  std::string why = "there is no " + name;
  for (const DeviceRow& row : list_devices()) {
    if (row.name == name) return row.unusable;
    if (row.name == "cuda" || row.name == "cuda:0") why += ": " + (row.unusable.empty() ? "no cuDNN" : row.unusable);
  }
  return why;
}

class NvidiaGpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string why = why_unusable(GetParam());
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(NvidiaGpu, AgreesWithTheReferenceOnEveryCase) {
  const auto device = make_device(GetParam(), {});
  for (const StageCase& c : stage_cases()) {
    SCOPED_TRACE(c.name);
    expect_agreement(*device, c.spec);
  }
}

TEST_P(NvidiaGpu, TakesChannelsAndPixels) {
  const auto device = make_device(GetParam(), {});
  expect_channels_are_taken(*device);
  expect_pixels_are_taken(*device, true);
}

TEST_P(NvidiaGpu, ActivatesAsPyTorchDoes) { expect_known_activations(*make_device(GetParam(), {})); }

TEST_P(NvidiaGpu, AgreesWithinTheRoundingOfTf32) {
  const auto device = make_device(GetParam(), {.tf32 = true});
  for (const std::string name :
       {"FiftyChannels", "ManyChannels", "LeftOverShard", "FortySevenFilters", "ManyFilters"}) {
    SCOPED_TRACE(name);
    expect_agreement(*device, smooth_case(name), 0x1.0p-10);
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, NvidiaGpu, testing::Values("cuda:0", "cublas:0"),
                         [](const auto& info) { return info.param.substr(0, info.param.find(':')); });

}  // namespace
}  // namespace convoy
