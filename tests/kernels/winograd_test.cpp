// Compares the kernels with convolutions by their definition, in double precision, and checks which shards use them.
#include "kernels/winograd/winograd.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/random.hpp"
#include "kernels/onednn/winograd.hpp"
#include "tests/support/stage_cases.hpp"

namespace convoy {
namespace {

struct Case {
  WinogradShape shape;
  const char* name;
};

/// Returns a shape whose channels and filters are numbers of blocks; the test multiplies them by the width of the
/// vectors.
WinogradShape blocks(int samples, int channels, int filters, int height, int width, int kernel, int top, int left,
                     int out_height, int out_width) {
  return {samples, channels, filters, height, width, out_height, out_width, kernel, top, left};
}

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {blocks(1, 1, 1, 4, 4, 3, 1, 1, 4, 4), "OneTile"},
      {blocks(3, 2, 3, 9, 7, 3, 1, 1, 9, 7), "OddSizes"},
      {blocks(2, 1, 5, 8, 13, 3, 0, 0, 6, 11), "WithoutPadding"},
      {blocks(2, 3, 1, 6, 5, 3, 2, 0, 7, 6), "UnevenPadding"},
      {blocks(1, 2, 2, 1, 2, 3, 1, 1, 1, 2), "SmallerThanATile"},
      {blocks(2, 9, 7, 12, 12, 3, 1, 1, 12, 12), "ManyBlocks"},
      {blocks(40, 2, 3, 5, 6, 3, 1, 1, 5, 6), "MoreTilesThanFilters"},
      {blocks(136, 1, 19, 4, 3, 3, 1, 1, 4, 3), "TwoRoundsOfTiles"},
      {blocks(137, 17, 19, 2, 1, 3, 1, 1, 2, 1), "UnequalRoundsOfManyChannels"},
      {blocks(1, 1, 1, 4, 4, 5, 2, 2, 4, 4), "OneTileOf5"},
      {blocks(3, 2, 3, 9, 7, 5, 2, 2, 9, 7), "OddSizesOf5"},
      {blocks(2, 1, 5, 8, 13, 5, 0, 0, 4, 9), "WithoutPaddingOf5"},
      {blocks(2, 3, 1, 6, 5, 5, 4, 1, 8, 4), "UnevenPaddingOf5"},
      {blocks(3, 9, 7, 8, 8, 5, 2, 2, 8, 8), "ManyBlocksOf5"},
      {blocks(40, 2, 3, 5, 6, 5, 2, 2, 5, 6), "MoreTilesThanFiltersOf5"},
      {blocks(136, 1, 19, 3, 2, 5, 2, 2, 3, 2), "TwoRoundsOfTilesOf5"},
  };
  return all;
}

class Winograd : public testing::TestWithParam<std::tuple<int, Case>> {
 protected:
  void SetUp() override {
    const auto& [width, of] = GetParam();
    kernels_ = winograd_kernels(width);
    if (kernels_ == nullptr) GTEST_SKIP() << "this processor has no vectors of " << width << " floats";
    shape_ = of.shape;
    shape_.channels *= width;
    shape_.filters *= width;
    const auto area = [](int h, int w) { return static_cast<std::size_t>(h) * static_cast<std::size_t>(w); };
    shape_.in_sample = area(shape_.in_h, shape_.in_w) * static_cast<std::size_t>(shape_.channels);
    shape_.out_sample = area(shape_.out_h, shape_.out_w) * static_cast<std::size_t>(shape_.filters);
    turned_ = shape_;
    std::swap(turned_.channels, turned_.filters);
    std::swap(turned_.in_h, turned_.out_h);
    std::swap(turned_.in_w, turned_.out_w);
    std::swap(turned_.in_sample, turned_.out_sample);
    turned_.pad_top = shape_.kernel - 1 - shape_.pad_top;
    turned_.pad_left = shape_.kernel - 1 - shape_.pad_left;
    input_ = numbers(area(shape_.samples, shape_.channels) * area(shape_.in_h, shape_.in_w), 1);
    gradient_ = numbers(area(shape_.samples, shape_.filters) * area(shape_.out_h, shape_.out_w), 2);
    weights_ = numbers(area(shape_.channels, shape_.filters) * area(shape_.kernel, shape_.kernel), 3);
    bias_ = numbers(static_cast<std::size_t>(shape_.filters), 4);
  }

  static std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
    Random random(seed, count);
    std::vector<float> all(count);
    for (float& each : all) each = random.uniform(-1.0F, 1.0F);
    return all;
  }

  // The places of values in maps and weights, as WinogradShape describes them.
  std::size_t place(int count, int height, int width, int sample, int c, int y, int x) const {
    const int lanes = kernels_->width;
    const auto block = static_cast<std::size_t>(sample * (count / lanes) + c / lanes);
    return ((block * height + y) * width + x) * lanes + c % lanes;
  }
  std::size_t weight_place(int channels, int filter, int channel, int tap) const {
    const int lanes = kernels_->width;
    const auto block = static_cast<std::size_t>(filter / lanes * (channels / lanes) + channel / lanes);
    return ((block * shape_.kernel * shape_.kernel + tap) * lanes + channel % lanes) * lanes + filter % lanes;
  }

  /// Calls with every pair of an input and an output that a weight joins: (sample, input row and column, output row
  /// and column, place in the kernel).
  void for_each_product(const std::function<void(int, int, int, int, int, int)>& call) const {
    const WinogradShape& s = shape_;
    for (int n = 0; n < s.samples; ++n) {
      for (int y = 0; y < s.out_h; ++y) {
        for (int x = 0; x < s.out_w; ++x) {
          for (int tap = 0; tap < s.kernel * s.kernel; ++tap) {
            const int from_y = y - s.pad_top + tap / s.kernel;
            const int from_x = x - s.pad_left + tap % s.kernel;
            if (from_y >= 0 && from_y < s.in_h && from_x >= 0 && from_x < s.in_w) call(n, from_y, from_x, y, x, tap);
          }
        }
      }
    }
  }

  std::vector<float> convolve(const WinogradShape& shape, const std::vector<float>& input,
                              const std::vector<float>& weights, bool turned, const WinogradEpilogue& epilogue,
                              int threads) {
    std::vector<float> scratch(kernels_->convolve_scratch(shape, threads), 77.0F);
    std::vector<float> output(static_cast<std::size_t>(shape.samples) * shape.filters * shape.out_h * shape.out_w);
    kernels_->convolve(shape, input.data(), weights.data(), turned, epilogue, output.data(), scratch.data(), threads);
    return output;
  }
  std::vector<float> find_gradient(int threads) {
    std::vector<float> scratch(kernels_->gradient_scratch(shape_, threads), 77.0F);
    std::vector<float> found(weights_.size());
    kernels_->find_gradient(shape_, input_.data(), gradient_.data(), found.data(), scratch.data(), threads);
    return found;
  }

  /// Values in [-1, 1] have sums of products that grow as the square root of their number, as their errors do. Even a
  /// sum of few products passes through many values. The factors are some 1.3 times the largest errors seen.
  void expect_near(const std::vector<float>& got, const std::vector<double>& expected, double products) const {
    ASSERT_EQ(got.size(), expected.size());
    const double most = (shape_.kernel == 3 ? 4e-6 : 2e-5) * std::sqrt(products + 64.0);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], most) << i;
  }

  const WinogradKernels* kernels_ = nullptr;
  WinogradShape shape_;
  WinogradShape turned_;
  std::vector<float> input_;
  std::vector<float> gradient_;
  std::vector<float> weights_;
  std::vector<float> bias_;
};

TEST_P(Winograd, ConvolvesAsDefined) {
  const WinogradShape& s = shape_;
  std::vector<double> expected(gradient_.size());
  for (int n = 0; n < s.samples; ++n) {
    for (int k = 0; k < s.filters; ++k) {
      for (int y = 0; y < s.out_h; ++y) {
        for (int x = 0; x < s.out_w; ++x) expected[place(s.filters, s.out_h, s.out_w, n, k, y, x)] = bias_[k];
      }
    }
  }
  for_each_product([&](int n, int from_y, int from_x, int y, int x, int tap) {
    for (int k = 0; k < s.filters; ++k) {
      double sum = 0.0;
      for (int c = 0; c < s.channels; ++c) {
        sum += double{1} * input_[place(s.channels, s.in_h, s.in_w, n, c, from_y, from_x)] *
               weights_[weight_place(s.channels, k, c, tap)];
      }
      expected[place(s.filters, s.out_h, s.out_w, n, k, y, x)] += sum;
    }
  });
  const std::vector<float> got = convolve(s, input_, weights_, false, {.bias = bias_.data()}, 1);
  expect_near(got, expected, s.channels * s.kernel * s.kernel);
  EXPECT_EQ(convolve(s, input_, weights_, false, {.bias = bias_.data()}, 3), got);

  const std::vector<float> leaky = convolve(s, input_, weights_, false, {bias_.data(), true, 0.25F}, 2);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(leaky[i], got[i] < 0.0F ? 0.25F * got[i] : got[i]) << i;
}

TEST_P(Winograd, FindsInputGradientsWithTurnedWeights) {
  const WinogradShape& s = shape_;
  std::vector<float> exchanged(weights_.size());
  for (int k = 0; k < s.filters; ++k) {
    for (int c = 0; c < s.channels; ++c) {
      for (int tap = 0; tap < s.kernel * s.kernel; ++tap) {
        exchanged[weight_place(s.filters, c, k, tap)] = weights_[weight_place(s.channels, k, c, tap)];
      }
    }
  }
  std::vector<double> expected(input_.size());
  for_each_product([&](int n, int from_y, int from_x, int y, int x, int tap) {
    for (int c = 0; c < s.channels; ++c) {
      double sum = 0.0;
      for (int k = 0; k < s.filters; ++k) {
        sum += double{1} * gradient_[place(s.filters, s.out_h, s.out_w, n, k, y, x)] *
               weights_[weight_place(s.channels, k, c, tap)];
      }
      expected[place(s.channels, s.in_h, s.in_w, n, c, from_y, from_x)] += sum;
    }
  });
  const std::vector<float> got = convolve(turned_, gradient_, exchanged, true, {}, 1);
  expect_near(got, expected, s.filters * s.kernel * s.kernel);
  EXPECT_EQ(convolve(turned_, gradient_, exchanged, true, {}, 4), got);
}

TEST_P(Winograd, FindsGradientsOfWeights) {
  const WinogradShape& s = shape_;
  std::vector<double> expected(weights_.size());
  for_each_product([&](int n, int from_y, int from_x, int y, int x, int tap) {
    for (int k = 0; k < s.filters; ++k) {
      const double slope = gradient_[place(s.filters, s.out_h, s.out_w, n, k, y, x)];
      for (int c = 0; c < s.channels; ++c) {
        expected[weight_place(s.channels, k, c, tap)] +=
            slope * input_[place(s.channels, s.in_h, s.in_w, n, c, from_y, from_x)];
      }
    }
  });
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    const std::vector<float> got = find_gradient(threads);
    expect_near(got, expected, s.samples * s.out_h * s.out_w);
    EXPECT_EQ(find_gradient(threads), got) << "a second run must give the same bits";
  }
}

TEST_P(Winograd, TakesLittleMemoryForEachOfManyThreads) {
  constexpr int kMany = 48;
  EXPECT_LE(kernels_->gradient_scratch(shape_, kMany), 3 * kMany * kernels_->gradient_scratch(shape_, 1) / 2);
}

TEST_P(Winograd, ComputesEachSampleByItself) {
  const std::vector<float> all = convolve(shape_, input_, weights_, false, {}, 2);
  WinogradShape one = shape_;
  one.samples = 1;
  const std::size_t in = input_.size() / static_cast<std::size_t>(shape_.samples);
  const std::size_t out = all.size() / static_cast<std::size_t>(shape_.samples);
  for (std::size_t n = 0; n < static_cast<std::size_t>(shape_.samples); ++n) {
    const std::vector<float> alone(input_.begin() + n * in, input_.begin() + (n + 1) * in);
    const std::vector<float> expected(all.begin() + n * out, all.begin() + (n + 1) * out);
    ASSERT_EQ(convolve(one, alone, weights_, false, {}, 1), expected) << n;
  }
}

TEST_P(Winograd, KeepsNanThroughRelu) {
  input_.front() = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> got = convolve(shape_, input_, weights_, false, {nullptr, true, 0.0F}, 1);
  for (int k = 0; k < shape_.filters; ++k) {
    ASSERT_TRUE(std::isnan(got[place(shape_.filters, shape_.out_h, shape_.out_w, 0, k, 0, 0)])) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Winograd, testing::Combine(testing::Values(8, 16), testing::ValuesIn(cases())),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<1>(info.param).name, std::get<0>(info.param));
                         });

/// The kernels compute every float of these stages' passes; other shapes would not show an error in how they are used.
TEST(WinogradPays, ForTheStagesThatDevicesAreTestedOn) {
  OnednnEngine engine;
  for (const int width : {8, 16}) {
    if (winograd_kernels(width) == nullptr) continue;
    engine.vector_width = width;
    for (const char* name : {"TilesOf3", "TilesOf3WithoutPadding", "TilesOf5", "TilesOfAShard", "TilesOfMicroBatches",
                             "TilesOfTwoGroups"}) {
      EXPECT_TRUE(winograd_pays(engine, stage_case(name).spec)) << name << ", vectors of " << width;
    }
    engine.bf16 = true;
    EXPECT_FALSE(winograd_pays(engine, stage_case("TilesOf3").spec)) << "of bfloat16 there are no kernels";
    engine.bf16 = false;
  }
}

TEST(WinogradPays, NotForOtherConvolutionsOrFewValues) {
  OnednnEngine engine;
  ShardSpec strided = stage_case("TilesOf3").spec;
  strided.stage.conv.stride_w = 2;
  for (const int width : {8, 16}) {
    if (winograd_kernels(width) == nullptr) continue;
    engine.vector_width = width;
    for (const char* name : {"Plain", "Dilated", "DilatedTwoGroups", "FiftyChannels"}) {
      EXPECT_FALSE(winograd_pays(engine, stage_case(name).spec)) << name << ", vectors of " << width;
    }
    EXPECT_FALSE(winograd_pays(engine, strided)) << "stride, vectors of " << width;
  }
}

}  // namespace
}  // namespace convoy
