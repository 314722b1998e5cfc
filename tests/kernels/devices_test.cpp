// Compares every device of this build with the double-precision reference on every case of the list.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "kernels/host/matmul.hpp"
#include "tests/support/host_shard.hpp"
#include "tests/support/stage_cases.hpp"
#include "tests/support/tensors.hpp"

namespace convoy {
namespace {

class Devices : public testing::TestWithParam<std::tuple<std::string, int, StageCase>> {};

TEST_P(Devices, AgreeWithTheReference) {
  const auto& [name, threads, stage_case] = GetParam();
  const auto device = make_device(name, {.threads = threads});
  expect_agreement(*device, stage_case.spec);
}

std::string case_name(const testing::TestParamInfo<Devices::ParamType>& info) {
  return fmt::format("{}{}_{}", std::get<0>(info.param), std::get<1>(info.param), std::get<2>(info.param).name);
}

INSTANTIATE_TEST_SUITE_P(Reference, Devices,
                         testing::Combine(testing::Values("reference"), testing::Values(1),
                                          testing::ValuesIn(stage_cases())),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Cpu, Devices,
                         testing::Combine(testing::Values("cpu", "eigen"), testing::Values(1, 2),
                                          testing::ValuesIn(stage_cases())),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ManyThreads, Devices,
                         testing::Combine(testing::Values("eigen"), testing::Values(5),
                                          testing::ValuesIn(stage_cases())),
                         case_name);

/// The kernels of tiles round more coarsely than sums of products do, most of all those of 5 x 5.
class DevicesWithTiles : public testing::TestWithParam<std::tuple<int, StageCase>> {};

TEST_P(DevicesWithTiles, AgreeWithTheReference) {
  const auto& [threads, stage_case] = GetParam();
  const auto device = make_device("cpu", {.threads = threads});
  expect_agreement(*device, stage_case.spec, stage_case.spec.stage.conv.kernel_h == 3 ? 0x1.0p-22 : 0x1.0p-20);
}

INSTANTIATE_TEST_SUITE_P(Cpu, DevicesWithTiles,
                         testing::Combine(testing::Values(1, 3), testing::ValuesIn(tile_cases())),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<1>(info.param).name, std::get<0>(info.param));
                         });

// ---- tensors -------------------------------------------------------------------------------------------------------

class Tensors : public testing::TestWithParam<std::string> {};

TEST_P(Tensors, TakeChannels) { expect_channels_are_taken(*make_device(GetParam(), {})); }

TEST_P(Tensors, TakePixels) { expect_pixels_are_taken(*make_device(GetParam(), {}), true); }

INSTANTIATE_TEST_SUITE_P(Host, Tensors, testing::Values("reference", "reference64", "cpu", "eigen"),
                         [](const auto& info) { return info.param; });

// ---- dropout -------------------------------------------------------------------------------------------------------

TEST(SpatialDropout, DropsWholeMaps) {
  constexpr int kMapsOfChannels = 12;
  Stage stage = stage_without_weights("stage", StageKind::channels, kMapsOfChannels, 5, 4);
  stage.after = {Dropout{0.5F, 3, true}};
  const ShardSpec spec{stage, {0, kMapsOfChannels}, 4, true};
  const std::vector<float> ones(static_cast<std::size_t>(4 * kMapsOfChannels * 20), 1.0F);
  for (const std::string name : {"reference", "cpu", "eigen"}) {
    SCOPED_TRACE(name);
    const auto device = make_device(name, {.threads = 2});
    HostShard shard(*device, spec);
    const Tensor got = shard.forward(ones, {.training = true, .seed = 9});
    int dropped = 0;
    for (std::size_t map = 0; map < got.size() / 20; ++map) {
      const float factor = got.data()[map * 20];
      EXPECT_TRUE(factor == 0.0F || factor == 2.0F) << factor;
      for (std::size_t i = 1; i < 20; ++i) ASSERT_EQ(got.data()[map * 20 + i], factor) << map;
      dropped += factor == 0.0F ? 1 : 0;
    }
    EXPECT_GT(dropped, 12);
    EXPECT_LT(dropped, 36);
  }
}

// ---- batch norm ----------------------------------------------------------------------------------------------------

/// Sums of so many values in single precision would be off by some 1e-5.
TEST(BatchNormStatistics, AreAsExactAsFloats) {
  Stage stage = stage_without_weights("stage", StageKind::channels, 8, 64, 64);
  stage.after = {BatchNorm{.name = "norm", .momentum = 1.0F}};
  const ShardSpec spec{stage, {0, 8}, 16, true};
  std::vector<ShardState> states;
  for (const std::string name : {"reference64", "cpu", "eigen"}) {
    const auto device = make_device(name, {.threads = 2});
    HostShard shard(*device, spec);
    shard.forward(random_input(spec).span(), {.training = true});
    states.push_back(shard.shard().state());
    for (const std::size_t each : {2, 3}) {  // mean and variance
      for (int c = 0; c < 8; ++c) {
        const float expected = states.front().parameters.at(each).value.at(c, 0);
        EXPECT_NEAR(states.back().parameters.at(each).value.at(c, 0), expected, std::abs(expected) * 0x1.0p-23F)
            << name << ", channel " << c;
      }
    }
  }
}

// ---- bfloat16 ------------------------------------------------------------------------------------------------------

/// The cpu device with bfloat16 products, or nothing and the reason in `why`.
std::pair<std::unique_ptr<Device>, std::string> bf16_device() {
  try {
    return {make_device("cpu", {.threads = 1, .bf16 = true}), ""};
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

class InBf16 : public testing::TestWithParam<std::string> {};

TEST_P(InBf16, AgreesWithinItsRounding) {
  const auto [device, why] = bf16_device();
  if (device == nullptr) GTEST_SKIP() << why;
  expect_agreement(*device, smooth_case(GetParam()), 0x1.0p-8);
}

INSTANTIATE_TEST_SUITE_P(Cases, InBf16,
                         testing::Values("FiftyChannels", "ManyChannels", "Blocked", "OneChannelLeftOver",
                                         "LeftOverShard", "TwentySixChannels", "FortySevenFilters", "ManyFilters",
                                         "ManyFiltersFewChannels", "ManyFiltersPointwise", "ManyFiltersStride2"));

TEST(InBf16, RoundsWhatConvolutionsMultiply) {
  const auto [device, why] = bf16_device();
  if (device == nullptr) GTEST_SKIP() << why;
  const auto in_floats = make_device("cpu", {.threads = 1});
  const ShardSpec spec = smooth_case("FiftyChannels");
  std::vector<Tensor> outputs;
  for (Device* each : {device.get(), in_floats.get()}) {
    HostShard shard(*each, spec);
    shard.shard().set_state(random_state(spec));
    outputs.push_back(shard.forward(random_input(spec).span(), {}));
  }
  float most = 0.0F;
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    most = std::max(most, std::abs(outputs[0].data()[i] - outputs[1].data()[i]));
  }
  EXPECT_GT(most, 1e-4F);
}

TEST(InBf16, IsRefusedByDevicesWithoutIt) {
  for (const std::string name : {"reference", "eigen", "opencl:0", "cuda:0"}) {
    EXPECT_THAT([&] { make_device(name, {.threads = 1, .bf16 = true}); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("cannot compute in bfloat16")))
        << name;
  }
}

// ---- splits --------------------------------------------------------------------------------------------------------

class Splits : public testing::TestWithParam<std::tuple<std::string, int>> {};

/// The shards of a stage together give the results of the whole stage. Maps and weight gradients are equal to the bit
/// if the device sums in the same order; input gradients are summed over the shards.
TEST_P(Splits, ShardsTogetherAreTheStage) {
  const auto& [name, shards] = GetParam();
  const auto device = make_device(name, {.threads = 1});
  ShardSpec spec = stage_case("ShardInTheMiddle").spec;
  spec.filters = {0, spec.stage.conv.filters};
  const ShardState state = random_state(spec);
  const Tensor input = random_input(spec);
  const Tensor gradient = random_output_gradient(spec);
  const Pass pass{.training = true, .seed = 5};
  HostShard whole(*device, spec);
  whole.shard().set_state(state);
  const Tensor maps = whole.forward(input.span(), pass);
  const Tensor slopes = *whole.backward(gradient.span());

  Tensor sum(slopes.shape(), 0.0F);
  for (int s = 0; s < shards; ++s) {
    ShardSpec part = spec;
    part.filters.first = spec.filters.count * s / shards;
    part.filters.count = spec.filters.count * (s + 1) / shards - part.filters.first;
    HostShard shard(*device, part);
    shard.shard().set_state(slice(state, part.filters));
    const Tensor& output = shard.forward(input.span(), pass);
    Tensor part_gradient(output.shape());
    for (int n = 0; n < spec.batch; ++n) {
      for (int c = 0; c < part.filters.count; ++c) {
        for (int h = 0; h < maps.shape().h; ++h) {
          for (int w = 0; w < maps.shape().w; ++w) {
            ASSERT_NEAR(output.at(n, c, h, w), maps.at(n, part.filters.first + c, h, w), 1e-5);
            part_gradient.at(n, c, h, w) = gradient.at(n, part.filters.first + c, h, w);
          }
        }
      }
    }
    const Tensor& part_slopes = *shard.backward(part_gradient.span());
    for (std::size_t i = 0; i < sum.size(); ++i) sum.data()[i] += part_slopes.data()[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum.data()[i], slopes.data()[i], 1e-4) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Counts, Splits, testing::Combine(testing::Values("reference", "eigen", "cpu"), testing::Values(1, 2, 3, 7, 20)),
    [](const auto& info) { return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param)); });

// ---- misuse --------------------------------------------------------------------------------------------------------

TEST(Misuse, IsABrokenInvariant) {
  for (const std::string name : {"reference", "eigen", "cpu"}) {
    const auto device = make_device(name, {.threads = 1});
    const ShardSpec spec = stage_case("Plain").spec;
    const auto shard = device->compile(spec);
    const auto input = shard->make_input();
    const auto gradient = shard->make_output_gradient();
    EXPECT_THROW(shard->backward(*gradient), BrokenInvariant) << name << ": backward before forward";
    shard->forward(*input, {.training = false});
    EXPECT_THROW(shard->backward(*gradient), BrokenInvariant) << name << ": backward after a forward in testing";
    EXPECT_THROW(shard->forward(*gradient, {}), BrokenInvariant) << name << ": an input of another shape";
    const auto other = make_device("reference64", {.threads = 1})->compile(spec)->make_input();
    EXPECT_THROW(shard->forward(*other, {}), BrokenInvariant) << name << ": a foreign tensor";
    std::vector<float> few(3);
    EXPECT_THROW(input->write(few), BrokenInvariant) << name;
  }
}

// ---- matrix products -----------------------------------------------------------------------------------------------

template <class T>
void expect_product(int m, int n, int k, bool transpose_a, bool transpose_b, T beta) {
  Random random(1, static_cast<std::uint64_t>(m * 10000 + n * 100 + k));
  const auto fill = [&](int count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) value = static_cast<T>(random.uniform(-1.0F, 1.0F));
    return values;
  };
  const std::vector<T> a = fill(m * k);
  const std::vector<T> b = fill(k * n);
  std::vector<T> c = fill(m * n);
  const std::vector<T> before = c;
  matmul(Matmul<T>{.m = m,
                   .n = n,
                   .k = k,
                   .transpose_a = transpose_a,
                   .transpose_b = transpose_b,
                   .a = a,
                   .b = b,
                   .c = c,
                   .beta = beta});
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      double sum = static_cast<double>(beta) * static_cast<double>(before[at]);
      for (int p = 0; p < k; ++p) {
        const auto x = a[transpose_a ? p * m + i : i * k + p];
        const auto y = b[transpose_b ? j * k + p : p * n + j];
        sum += static_cast<double>(x) * static_cast<double>(y);
      }
      ASSERT_NEAR(c[at], sum, 1e-5) << m << "x" << n << "x" << k << " " << transpose_a << transpose_b;
    }
  }
}

TEST(MatrixProduct, EveryTransposeAndOddSizes) {
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {3, 5, 7}, {64, 10, 33}, {10, 65, 64}, {1, 17, 9}, {17, 1, 9}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const int beta : {0, 1}) {
          expect_product<float>(m, n, k, ta, tb, static_cast<float>(beta));
          expect_product<double>(m, n, k, ta, tb, beta);
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy
