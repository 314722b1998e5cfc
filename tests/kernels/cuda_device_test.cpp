// Tests the CUDA device on a GPU of plain loops (host_gpu.cpp): its shards, layers and products, and the index
// arithmetic of every kernel.

#include "kernels/cuda/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "devices/same_bits.hpp"
#include "tests/kernels/host_gpu.hpp"
#include "tests/support/known_activations.hpp"
#include "tests/support/stage_cases.hpp"
#include "tests/support/tensors.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::unique_ptr<Device> host_device(const HostGpuLimits& limits = {}) {
  host_gpu_limits() = limits;
  return make_cuda_device("cuda:0", "loops", std::make_unique<cuda::Gpu>(0, false), make_product_convolution);
}

class CudaOnHost : public testing::TestWithParam<StageCase> {
 protected:
  void TearDown() override { host_gpu_limits() = {}; }
};

TEST_P(CudaOnHost, AgreesWithTheReference) { expect_agreement(*host_device(), GetParam().spec); }

/// A GPU with so little memory that columns are made for only one or two samples at once.
TEST_P(CudaOnHost, AgreesInParts) {
  expect_agreement(*host_device({.memory = std::size_t{16} << 10}), GetParam().spec);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaOnHost, testing::ValuesIn(stage_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(CudaActivations, AreThoseOfPyTorch) { expect_known_activations(*host_device()); }

TEST(CudaTensors, TakeChannels) { expect_channels_are_taken(*host_device()); }

TEST(CudaTensors, TakePixels) { expect_pixels_are_taken(*host_device(), true); }

TEST(CudaUpdates, HaveTheBitsOfTheDefinition) { EXPECT_TRUE(updates_to_same_bits(*host_device())); }

TEST(CudaFailures, NoRoomIsAnError) {
  const auto device = host_device({.room = 1000});
  EXPECT_THAT([&] { device->compile(stage_case("Plain").spec); },
              ThrowsMessage<Error>(HasSubstr("not enough memory for")));
  host_gpu_limits() = {};
}

TEST(CudaFailures, MapsBeyondTheKernelsNumbersAreRefused) {
  ShardSpec spec = stage_case("Plain").spec;
  spec.batch = 1 << 27;
  EXPECT_THAT([&] { host_device()->compile(spec); }, ThrowsMessage<Error>(HasSubstr("make the batch smaller")));
}

TEST(CudaFailures, ColumnsBeyondTheKernelsNumbersAreRefused) {
  ShardSpec spec = stage_case("Plain").spec;
  spec.batch = 1;
  spec.stage.height = spec.stage.width = 4096;
  spec.stage.conv.kernel_h = spec.stage.conv.kernel_w = 11;
  EXPECT_THAT([&] { host_device()->compile(spec); }, ThrowsMessage<Error>(HasSubstr("the columns of one sample")));
}

TEST(CudaFailures, WhatALibraryCannotComputeIsComputedByProducts) {
  const auto nothing = [](cuda::Gpu&, CudaScratch&, const ShardSpec&) { return std::unique_ptr<CudaConvolution>(); };
  const auto device = make_cuda_device("cuda:0", "nothing", std::make_unique<cuda::Gpu>(0, false), nothing);
  expect_agreement(*device, stage_case("Plain").spec);
}

TEST(CudaFailures, ALostGpuIsADeviceLost) {
  const auto device = host_device({.lost = true});
  EXPECT_THROW(device->finish(), DeviceLost);
  host_gpu_limits() = {};
}

}  // namespace
}  // namespace convoy
