// Compares the memory that shards take on the processor with the memory that plans count on.

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "nets/graph/net.hpp"
#include "plan/profile.hpp"
#include "tests/support/allocated.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

struct Case {
  std::string net;
  Overrides set;
  int batch;
  int filters;
};

/// The shards of a net, and their inputs, after a training step.
struct Trained {
  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  double counted = 0.0;
};

Trained train(Device& device, const Case& of) {
  Trained all;
  const Cut parts = cut(read_net(source_folder() + "/nets/" + of.net + ".yaml", of.set));
  for (const Stage& stage : parts.trunk) {
    ShardSpec spec{.stage = stage, .filters = {0, std::min(of.filters, stage.conv.filters)}, .batch = of.batch};
    spec.input_gradient = &stage != &parts.trunk.front();
    all.shards.push_back(device.compile(spec));
    Shard& shard = *all.shards.back();
    all.tensors.push_back(shard.make_input());
    const DeviceTensor& input = *all.tensors.back();
    all.tensors.push_back(shard.make_output_gradient());
    shard.forward(input, {.training = true});
    shard.backward(*all.tensors.back());
    shard.update({});
    all.counted += static_cast<double>(
        shard_bytes(stage, spec.filters.count, of.batch, spec.input_gradient, device.info().filter_block));
  }
  return all;
}

class ProcessorMemory : public testing::TestWithParam<std::string> {};

TEST_P(ProcessorMemory, IsWhatPlansCountOn) {
  const Overrides narrower{"conv1.filters=288", "conv2.filters=320"};
  for (const Case& of : {Case{"lenet", {}, 64, 50}, Case{"lenet", {}, 64, 7}, Case{"cifar10-50-500", {}, 64, 500},
                         Case{"cifar10-50-500", {}, 64, 47}, Case{"cifar10-500-1500", narrower, 4, 320},
                         Case{"cifar10-500-1500", narrower, 16, 47}, Case{"cifar10-50-500", {}, 64, 4}}) {
    const double before = allocated();
    const auto device = make_device(GetParam(), {.threads = 2});
    const Trained trained = train(*device, of);
    const double taken = allocated() - before;
    if (taken <= 0.0) GTEST_SKIP() << "the allocator does not count bytes (under a sanitizer)";
    EXPECT_LE(taken, device->info().memory_factor * trained.counted)
        << of.net << ", batch " << of.batch << ", " << of.filters << " filters";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ProcessorMemory, testing::Values("cpu", "eigen"));

}  // namespace
}  // namespace convoy
