// Tests how maps pass on an OpenCL device: runs of channels from tensor to tensor, stages without weights, and dropout.
// A test counts the bytes of a training step, which copies no maps to the host.

#include <gtest/gtest.h>

#include <algorithm>

#include "cl/opencl_device.hpp"
#include "core/random.hpp"
#include "nets/graph/net.hpp"
#include "tests/cl/usable_device.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/host_shard.hpp"
#include "tests/support/stage_cases.hpp"
#include "tests/support/tensors.hpp"
#include "train/local_trunk.hpp"

namespace convoy {
namespace {

Tensor noise(const Shape& shape, std::uint64_t stream) {
  Tensor tensor(shape);
  Random random(11, stream);
  for (float& value : tensor.span()) value = random.uniform(-1.0F, 1.0F);
  return tensor;
}

/// The device as its driver describes it (0), and with the kernels for GPUs (1).
class OpenClMaps : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const auto [number, why] = usable_device();
    if (number < 0) GTEST_SKIP() << why;
    ClSettings settings{.convolutions = ClConvolutions::direct};
    if (GetParam() == 1) settings.processor = settings.shares_memory = false;
    device_ = &KeptDevices::with(number, settings);
  }

  Device* device_ = nullptr;
};

// ---- images --------------------------------------------------------------------------------------------------------

/// The driver of tests shares its memory. A device with memory of its own leaves the pixels to the caller.
TEST_P(OpenClMaps, TakePixels) { expect_pixels_are_taken(*device_, GetParam() == 0); }

// ---- runs of channels ----------------------------------------------------------------------------------------------

struct Taking {
  FilterRange channels;  ///< of five
  int first;             ///< of seven
  bool added;
  SampleRange samples;  ///< of four
};

TEST_P(OpenClMaps, TakeRunsOfChannels) {
  const Shape small{4, 5, 3, 6};
  const Shape large{4, 7, 3, 6};
  const Tensor from = noise(small, 1);
  const Tensor before = noise(large, 2);
  const auto source = device_->make_tensor(small);
  const auto target = device_->make_tensor(large);
  source->write(from.span());
  for (const Taking& taking :
       {Taking{{0, 5}, 0, false, {0, 4}}, Taking{{0, 5}, 2, true, {0, 4}}, Taking{{1, 3}, 4, false, {1, 2}},
        Taking{{4, 1}, 6, true, {3, 1}}, Taking{{2, 2}, 0, true, {0, 3}}, Taking{{3, 0}, 1, false, {0, 4}},
        Taking{{0, 5}, 1, false, {2, 0}}}) {
    target->write(before.span());
    const std::size_t read = counts_of(*device_).bytes_read;
    target->take_channels(*source, taking.channels, taking.first, taking.added, taking.samples);
    EXPECT_EQ(counts_of(*device_).bytes_read, read) << "the host has nothing to do with it";
    Tensor expected = before;
    for (int n = taking.samples.first; n < taking.samples.first + taking.samples.count; ++n) {
      for (int c = 0; c < taking.channels.count; ++c) {
        const float* x = &from.at(n, taking.channels.first + c);
        float* y = &expected.at(n, taking.first + c);
        for (int i = 0; i < 3 * 6; ++i) y[i] = taking.added ? y[i] + x[i] : x[i];
      }
    }
    Tensor got(large);
    target->read(got.span());
    EXPECT_TRUE(std::ranges::equal(got.span(), expected.span()))
        << taking.channels.count << " channels from " << taking.channels.first << " to " << taking.first;
  }
}

TEST_P(OpenClMaps, TakeChannelsOfFewerChannelsAndOfPoints) {
  for (const Shape& points : {Shape{3, 9, 1, 1}, Shape{3, 9, 70, 5}}) {
    const Tensor from = noise(points, 3);
    const auto source = device_->make_tensor(points);
    const auto target = device_->make_tensor({3, 2, points.h, points.w});
    source->write(from.span());
    target->take_channels(*source, {6, 2}, 0, false);
    Tensor got(target->shape());
    target->read(got.span());
    const std::size_t run = got.shape().sample_size();
    for (int n = 0; n < 3; ++n) {
      EXPECT_TRUE(std::ranges::equal(got.sample(n), std::span(&from.at(n, 6), run))) << "sample " << n;
    }
  }
}

// ---- stages without weights ----------------------------------------------------------------------------------------

/// Windows that reach further forward than back, that hold one channel, and that are wider than the input.
TEST_P(OpenClMaps, NormaliseOverWindowsOfAnySize) {
  for (const int size : {1, 2, 4, 12}) {
    for (const FilterRange filters : {FilterRange{0, 9}, FilterRange{3, 4}, FilterRange{8, 1}}) {
      Stage stage = stage_without_weights("norm", StageKind::response_norm, 9, 4, 5);
      stage.norm = {.size = size, .alpha = 0.75F, .beta = 0.5F, .k = 1.25F};
      SCOPED_TRACE(fmt::format("windows of {}, {} channels from {}", size, filters.count, filters.first));
      expect_agreement(*device_, {.stage = stage, .filters = filters, .batch = 2});
    }
  }
}

/// The maps of a shard's channels in `batch` samples of ones, after dropout.
ShardSpec dropout_spec(FilterRange filters, const Dropout& dropout) {
  Stage stage = stage_without_weights("drop", StageKind::channels, 11, 5, 7);
  stage.after = {dropout};
  return {.stage = stage, .filters = filters, .batch = 6};
}

TEST_P(OpenClMaps, DropOutByTheFactorsOfTheDefinition) {
  const Dropout dropout{.rate = 0.3F, .stream = 5};
  const Pass pass{.training = true, .seed = 0xFEDCBA9876543210U};
  ShardSpec rows = dropout_spec({2, 7}, dropout);
  rows.micro_batches = 2;
  rows.first_sample = 4;
  rows.whole_micro_batch = 9;
  for (const ShardSpec& spec : {dropout_spec({0, 11}, dropout), dropout_spec({4, 3}, dropout), rows}) {
    HostShard shard(*device_, spec);
    const Tensor input(input_shape(spec.stage, spec.batch), 1.0F);
    const Tensor gradient(shard.output_shape(), 1.0F);
    const Tensor output = shard.forward(input.span(), pass);
    const Tensor& slopes = *shard.backward(gradient.span());
    const Origin origin = origin_of(spec);
    for (int n = 0; n < spec.batch; ++n) {
      for (int c = 0; c < spec.filters.count; ++c) {
        for (int i = 0; i < 5 * 7; ++i) {
          const int channel = spec.filters.first + c;
          const float factor =
              dropout_scale(pass.seed, dropout.stream, dropout.rate, origin.number_in_batch(n), channel, i);
          ASSERT_EQ((&output.at(n, c))[i], factor) << "sample " << n << ", channel " << channel << ", element " << i;
          ASSERT_EQ((&slopes.at(n, channel))[i], factor) << "gradient, sample " << n << ", channel " << channel;
        }
      }
    }
    const Tensor& tested = shard.forward(input.span(), {});
    EXPECT_TRUE(std::ranges::all_of(tested.span(), [](float value) { return value == 1.0F; }));
  }
}

// ---- steps ---------------------------------------------------------------------------------------------------------

constexpr const char* kJoins = R"(name: joins
input: {channels: 2, height: 8, width: 8}
layers:
  - {name: stem, type: conv, filters: 8, kernel: 3, pad: same}
  - {name: stem_relu, type: relu}
  - {name: stem_norm, type: response_norm, size: 3}
  - {name: a1, from: stem_norm, type: conv, filters: 8, kernel: 3, pad: same, bias: false, groups: 2}
  - {name: a1_norm, type: batch_norm}
  - {name: a_sum, from: [a1_norm, stem_norm], type: add}
  - {name: a_relu, type: relu}
  - {name: b1, from: a_relu, type: conv, filters: 4, kernel: 1}
  - {name: b2, from: a_relu, type: conv, filters: 6, kernel: 3, pad: same}
  - {name: b3, from: a_relu, type: max_pool, kernel: 3, stride: 1, pad: same}
  - {name: b, from: [b1, b2, b3], type: concat}
  - {name: mixed, type: shuffle_channels, groups: 3}
  - {name: mean, from: mixed, type: global_average_pool}
  - {name: gate, type: conv, filters: 18, kernel: 1}
  - {name: gate_sigmoid, type: sigmoid}
  - {name: gated, from: [gate_sigmoid, mixed], type: multiply}
  - {name: end, type: conv, filters: 5, kernel: 3}
  - {name: end_drop, type: dropout, rate: 0.25}
  - {name: out, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

/// Runs a training step.
void train_step(LocalTrunk& trunk, const Images& images, int step) {
  const Tensor& output = trunk.forward(images, {.training = true, .seed = 3, .squares = false, .step = step});
  trunk.backward(noise(output.shape(), 40));
  trunk.update({.learning_rate = 0.01F});
}

void expect_maps_stay(Device& device, const char* net) {
  const std::vector<Stage> stages = cut(parse_net(net, "net.yaml")).trunk;
  const Images images = noise_images(input_shape(stages[0], 4), 3, 1);
  LocalTrunk trunk(stages, images.shape(), device);
  train_step(trunk, images, 1);
  device.finish();
  const ClCounts before = counts_of(device);
  train_step(trunk, images, 2);
  trunk.settle();
  device.finish();
  const ClCounts after = counts_of(device);
  const std::size_t outputs = trunk.output(0).size() * sizeof(float);
  EXPECT_EQ(after.bytes_written - before.bytes_written, images.shape().size() * sizeof(float) + outputs)
      << "the images and the gradient with respect to the outputs";
  // The outputs, and for each stage a number that says whether its weights are finite.
  EXPECT_LE(after.bytes_read - before.bytes_read, outputs + stages.size() * 2 * sizeof(float));
  EXPECT_EQ(after.built + after.loaded, before.built + before.loaded) << "programs are compiled before the first step";
}

TEST_P(OpenClMaps, StayOnTheDeviceInAStep) {
  for (const char* net : {kJoins, kNormsNet, kSizesNet}) expect_maps_stay(*device_, net);
}

INSTANTIATE_TEST_SUITE_P(Kernels, OpenClMaps, testing::Values(0, 1),
                         [](const auto& info) { return info.param == 1 ? "OfGpus" : "OfTheDriver"; });

}  // namespace
}  // namespace convoy
