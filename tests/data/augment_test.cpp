// Tests random changes of images, and images that are set aside for validation.

#include "data/augment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "data/batches.hpp"
#include "tests/support/files.hpp"

namespace convoy {
namespace {

TEST(RandomParts, LieInThePictureAndHaveTheirAreaAndSides) {
  const FeatureShape picture{3, 120, 90};
  Random random(1, 2);
  double least = 1.0;
  double most = 0.0;
  for (int i = 0; i < 500; ++i) {
    const Region part = random_part(picture, 0.25, random);
    ASSERT_GE(part.top, 0.0);
    ASSERT_GE(part.left, 0.0);
    ASSERT_LE(part.top + part.height, 120.0);
    ASSERT_LE(part.left + part.width, 90.0);
    const double area = part.height * part.width / (120.0 * 90.0);
    least = std::min(least, area);
    most = std::max(most, area);
    ASSERT_GT(area, 0.24);
    ASSERT_NEAR(part.width / part.height, 1.0, 0.36);
  }
  EXPECT_LT(least, 0.3);
  EXPECT_GT(most, 0.85);
}

TEST(RandomParts, OfAPictureTooNarrowAreItsMiddle) {
  Random random(1, 3);
  const Region part = random_part({3, 1000, 10}, 1.0, random);
  EXPECT_EQ(part.width, 10.0);
  EXPECT_EQ(part.height, 13.0);
  EXPECT_EQ(part.top, 493.0);
}

/// An image of 2 x 1 pixels in colour.
Bytes two_pixels() { return {100, 200, 50, 60, 40, 180}; }

Bytes jittered(const Augmentation& augment, std::uint64_t stream) {
  Bytes pixels = two_pixels();
  Random random(9, stream);
  jitter_colours(pixels, {3, 1, 2}, augment, random);
  return pixels;
}

TEST(Jitter, OfBrightnessScalesAllValues) {
  std::set<int> seen;
  for (std::uint64_t stream = 0; stream < 40; ++stream) {
    const Bytes pixels = jittered({.brightness = 0.2}, stream);
    const double factor = pixels[0] / 100.0;
    EXPECT_GT(factor, 0.79);
    EXPECT_LT(factor, 1.21);
    EXPECT_NEAR(pixels[1], 200 * factor, 1.6);
    EXPECT_NEAR(pixels[4], 40 * factor, 1.0);
    seen.insert(pixels[0]);
  }
  EXPECT_GT(seen.size(), 15U);
}

TEST(Jitter, OfContrastKeepsTheMeanAndOfSaturationTheGrey) {
  const auto grey = [](const Bytes& p, std::size_t i) { return grey_of(p[i], p[2 + i], p[4 + i]); };
  for (std::uint64_t stream = 0; stream < 20; ++stream) {
    const Bytes contrast = jittered({.contrast = 0.3}, stream);
    EXPECT_NEAR(grey(contrast, 0) + grey(contrast, 1), grey(two_pixels(), 0) + grey(two_pixels(), 1), 4);
    const Bytes saturation = jittered({.saturation = 0.3}, stream);
    EXPECT_NEAR(grey(saturation, 0), grey(two_pixels(), 0), 2);
  }
  EXPECT_NE(jittered({.contrast = 0.3}, 0), two_pixels());
  EXPECT_NE(jittered({.saturation = 0.3}, 0), two_pixels());
  Bytes grey_image{50, 70};
  Random random(9, 1);
  jitter_colours(grey_image, {1, 1, 2}, {.saturation = 0.9}, random);
  EXPECT_EQ(grey_image, (Bytes{50, 70}));
}

TEST(Cutout, PaintsASquareThatMayHangOver) {
  const FeatureShape shape{2, 9, 8};
  const Bytes means{7, 8};
  std::set<long> sizes;
  for (std::uint64_t stream = 0; stream < 60; ++stream) {
    Bytes pixels(144, 1);
    Random random(4, stream);
    cut_square_out(pixels, shape, 4, means, random);
    const auto painted = std::ranges::count(std::span(pixels).first(72), 7);
    EXPECT_EQ(painted, std::ranges::count(std::span(pixels).last(72), 8));
    EXPECT_GE(painted, 4);
    EXPECT_LE(painted, 16);
    sizes.insert(painted);
  }
  EXPECT_GT(sizes.size(), 3U);
}

DataSet some_data(int images) {
  DataSet data{.name = "some", .classes = 3, .training = {.shape = {1, 4, 4}, .pixels = {}, .labels = {}}, .test = {}};
  for (int i = 0; i < images; ++i) {
    data.training.labels.push_back(static_cast<std::uint16_t>(i % 10 < 7 ? 0 : i % 10 < 9 ? 1 : 2));
    for (int p = 0; p < 16; ++p) data.training.pixels.push_back(static_cast<std::uint8_t>((i * 16 + 13 * p) % 251));
  }
  data.test = data.training;
  return data;
}

Pixels first_batch(const DataSet& data, std::uint64_t seed, const Augmentation& augment, Part part = Part::training) {
  const Batches batches(data, part, 8, seed, augment);
  Images images = batches.blank();
  std::vector<int> labels;
  batches.fill(0, 0, images, labels);
  return images.pixels;
}

TEST(AugmentedBatches, AreFunctionsOfTheSeed) {
  const DataSet data = some_data(50);
  const Augmentation all{
      .flip = true, .resized_crop = 0.3, .brightness = 0.3, .contrast = 0.3, .saturation = 0.3, .cutout = 2};
  const auto same = [](const Pixels& a, const Pixels& b) { return std::ranges::equal(a.span(), b.span()); };
  EXPECT_TRUE(same(first_batch(data, 1, all), first_batch(data, 1, all)));
  EXPECT_FALSE(same(first_batch(data, 1, all), first_batch(data, 2, all)));
  for (const Augmentation& one : {Augmentation{.resized_crop = 0.3}, Augmentation{.brightness = 0.3},
                                  Augmentation{.contrast = 0.3}, Augmentation{.cutout = 2}}) {
    EXPECT_FALSE(same(first_batch(data, 1, one), first_batch(data, 1, {})));
  }
}

/// What fill() and mix() make of the batch `index` of an epoch.
struct Mixed {
  Pixels before;
  Pixels after;
  std::vector<int> classes;
  Mixture mixture;
};

Mixed mixed_batch(const DataSet& data, std::uint64_t seed, double alpha, int epoch = 0, int index = 0,
                  Part part = Part::training) {
  const Batches batches(data, part, 8, seed, {.mixup = alpha});
  Images images = batches.blank();
  Mixed made;
  batches.fill(epoch, index, images, made.classes);
  made.before = images.pixels;
  made.mixture = batches.mix(epoch, index, images, made.classes);
  made.after = images.pixels;
  return made;
}

/// Each image is a mixture with one of the same batch, whose class is noted.
TEST(Mixup, MixesEachImageWithAnotherOne) {
  const DataSet data = some_data(50);
  const Mixed made = mixed_batch(data, 3, 0.8);
  const double share = made.mixture.share;
  ASSERT_GT(share, 0.0);
  ASSERT_LT(share, 1.0);
  ASSERT_EQ(made.mixture.others.size(), 8U);
  std::set<int> partners;
  for (int n = 0; n < 8; ++n) {
    const auto is_partner = [&](int other) {
      if (made.classes[other] != made.mixture.others[n]) return false;
      for (std::size_t p = 0; p < 16; ++p) {
        const double expected = share * made.before.sample(n)[p] + (1.0 - share) * made.before.sample(other)[p];
        if (std::abs(expected - made.after.sample(n)[p]) > 0.5 + 1e-9) return false;
      }
      return true;
    };
    for (int other = 0; other < 8; ++other) {
      if (is_partner(other)) partners.insert(other);
    }
  }
  EXPECT_EQ(partners.size(), 8U) << "each image is the other one of one image";
}

TEST(Mixup, IsAFunctionOfTheSeedAndTheStep) {
  const DataSet data = some_data(50);
  const auto shares = [&](std::uint64_t seed, int epoch, int index) {
    return mixed_batch(data, seed, 1.0, epoch, index).mixture.share;
  };
  EXPECT_EQ(shares(1, 0, 0), shares(1, 0, 0));
  std::set<double> all{shares(1, 0, 0), shares(2, 0, 0), shares(1, 1, 0), shares(1, 0, 1)};
  EXPECT_EQ(all.size(), 4U);
  const Mixed again = mixed_batch(data, 1, 1.0);
  EXPECT_TRUE(std::ranges::equal(again.after.span(), mixed_batch(data, 1, 1.0).after.span()));
}

TEST(Mixup, LeavesTestsAndOtherNetsAlone) {
  const DataSet data = some_data(50);
  for (const Mixed& made : {mixed_batch(data, 1, 0.0), mixed_batch(data, 1, 1.0, 0, 0, Part::test)}) {
    EXPECT_TRUE(made.mixture.others.empty());
    EXPECT_EQ(made.mixture.share, 1.0);
    EXPECT_TRUE(std::ranges::equal(made.before.span(), made.after.span()));
  }
}

/// Beta(alpha, alpha) has the mean 1/2 and the variance 1 / (4 (2 alpha + 1)).
TEST(Mixup, DrawsSharesOfTheBetaDistribution) {
  for (const double alpha : {0.01, 0.2, 1.0, 4.0}) {
    constexpr int kDraws = 20000;
    Random random(5, 5);
    double sum = 0.0;
    double squares = 0.0;
    for (int i = 0; i < kDraws; ++i) {
      const double share = draw_share(alpha, random);
      ASSERT_GE(share, 0.0);
      ASSERT_LE(share, 1.0);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 0.25 / (2.0 * alpha + 1.0);
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, 0.03 * variance) << alpha;
  }
}

// ---- validation ----------------------------------------------------------------------------------------------------

TEST(Validation, TakesItsFractionOfEachClass) {
  DataSet data = some_data(100);
  split_validation(data, 0.2, 5);
  EXPECT_EQ(data.training.count(), 80);
  EXPECT_EQ(data.validation.count(), 20);
  std::map<int, int> counts;
  for (const std::uint16_t label : data.validation.labels) ++counts[label];
  EXPECT_EQ(counts, (std::map<int, int>{{0, 14}, {1, 4}, {2, 2}}));
  EXPECT_EQ(data.validation.pixels.size(), 20U * 16U);
  // Together they are the images of before, each with its pixels.
  const DataSet before = some_data(100);
  std::multiset<std::vector<std::uint8_t>> images;
  for (const ImageSet* set : {&data.training, &data.validation}) {
    for (int i = 0; i < set->count(); ++i) {
      const auto first = set->pixels.begin() + 16 * i;
      std::vector<std::uint8_t> image(first, first + 16);
      image.push_back(static_cast<std::uint8_t>(set->labels[i]));
      images.insert(image);
    }
  }
  for (int i = 0; i < 100; ++i) {
    const auto first = before.training.pixels.begin() + 16 * i;
    std::vector<std::uint8_t> image(first, first + 16);
    image.push_back(static_cast<std::uint8_t>(before.training.labels[i]));
    EXPECT_GE(images.count(image), 1U) << i;
  }
}

TEST(Validation, IsAFunctionOfTheSeed) {
  const auto split = [](std::uint64_t seed) {
    DataSet data = some_data(60);
    split_validation(data, 0.25, seed);
    return data.validation.pixels;
  };
  EXPECT_EQ(split(1), split(1));
  EXPECT_NE(split(1), split(2));
}

TEST(Validation, LeavesEachClassAnImageAndRefusesASecondSplit) {
  DataSet data = some_data(20);  // 14, 4 and 2 images
  split_validation(data, 0.9, 1);
  std::set<int> left(data.training.labels.begin(), data.training.labels.end());
  EXPECT_EQ(left.size(), 3U);
  EXPECT_THAT([&] { split_validation(data, 0.1, 1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("leave out --val-split")));
}

/// The test images stay for the test; an epoch is tested on those for validation.
TEST(Validation, HasBatchesOfItsOwn) {
  DataSet data = some_data(60);
  EXPECT_TRUE(std::ranges::equal(first_batch(data, 1, {}, Part::validation).span(),
                                 first_batch(data, 1, {}, Part::test).span()));
  split_validation(data, 0.25, 1);
  const Pixels validation = first_batch(data, 1, {}, Part::validation);
  EXPECT_TRUE(std::equal(validation.span().begin(), validation.span().end(), data.validation.pixels.begin()));
}

}  // namespace
}  // namespace convoy
