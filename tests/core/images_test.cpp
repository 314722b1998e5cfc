// Tests how pixels become the values that a net reads.

#include "core/images.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/images.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;
using Scales = std::vector<ChannelScale>;

TEST(Images, AreNormalisedToTheBit) {
  constexpr int kChannels = 5;
  const Scales scales{{0.0, 1.0}, {0.5, 0.25}, {1.0 / 3.0, 1.0 / 7.0}, {0.4914, 0.2023}, {-2.5, 1e-6}};
  Images images{Pixels({3, kChannels, 2, 128}), scales};
  for (std::size_t i = 0; i < images.pixels.size(); ++i) {
    images.pixels.data()[i] = static_cast<std::uint8_t>((i * 37 + i / 256) % 256);
  }
  const Tensor values = normalised(images);
  for (int n = 0; n < 3; ++n) {
    for (int c = 0; c < kChannels; ++c) {
      const ChannelScale& scale = scales[c];
      for (int x = 0; x < 128; ++x) {
        const double pixel = images.pixels.at(n, c, 1, x);
        ASSERT_EQ(values.at(n, c, 1, x), static_cast<float>((pixel / 255.0 - scale.mean) / scale.deviation));
      }
    }
  }
}

TEST(Images, AreNormalisedSampleBySample) {
  const Images images = noise_images({4, 3, 2, 2}, 1, 1);
  Normaliser normaliser;
  normaliser.use(images.scales);
  Tensor some(images.shape(), 9.0F);
  normaliser.normalise(images.pixels, {1, 2}, some);
  const Tensor all = normalised(images);
  EXPECT_TRUE(std::ranges::equal(some.samples(1, 2), all.samples(1, 2)));
  EXPECT_EQ(std::ranges::count(some.span(), 9.0F), 2 * 12) << "other samples stay";
}

TEST(Images, FollowTheScalesOfTheirBatch) {
  Normaliser normaliser;
  const Pixels pixels({1, 1, 1, 1}, 255);
  Tensor value(pixels.shape());
  for (const double deviation : {1.0, 0.5, 1.0}) {
    normaliser.use({{0.0, deviation}});
    normaliser.normalise(pixels, {0, 1}, value);
    EXPECT_EQ(value.data()[0], static_cast<float>(1.0 / deviation));
  }
}

TEST(Images, OfNoiseLieBetweenMinusOneAndOne) {
  const Tensor values = normalised(noise_images({2, 1, 64, 64}, 5, 1));
  EXPECT_EQ(std::ranges::max(values.span()), 1.0F);
  EXPECT_EQ(std::ranges::min(values.span()), -1.0F);
}

TEST(Scales, ThatGiveNoNumbersAreRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const ChannelScale& bad : Scales{{kNan, 1.0},
                                        {kInfinity, 1.0},
                                        {0.5, 0.0},
                                        {0.5, -0.25},
                                        {0.5, kNan},
                                        {0.5, kInfinity},
                                        {0.5, 1e-300},
                                        {0.0, 1e-40},
                                        {-1e300, 1.0}}) {
    EXPECT_THAT(
        [&] {
          validate({{0.5, 0.25}, bad});
        },
        testing::ThrowsMessage<Error>(AllOf(HasSubstr("channel 1 of the images has mean"), HasSubstr("above 0"))))
        << bad.mean << ", " << bad.deviation;
  }
  validate({{0.5, 0.25}, {-3.0, 1e-6}, {1e30, 1.0}});
}

}  // namespace
}  // namespace convoy
