// Tests the contents and order of batches, and how images become numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "data/batches.hpp"
#include "tests/support/images.hpp"

namespace convoy {
namespace {

/// Images of 1x2x2; image i has the label i % 10 and pixels 10 i, 10 i + 1, 10 i + 2, 10 i + 3.
ImageSet numbered(int count) {
  ImageSet images{.shape = {1, 2, 2}, .pixels = {}, .labels = {}};
  for (int i = 0; i < count; ++i) {
    images.labels.push_back(static_cast<std::uint16_t>(i % 10));
    for (int p = 0; p < 4; ++p) images.pixels.push_back(static_cast<std::uint8_t>(10 * i + p));
  }
  return images;
}

DataSet numbered_data() { return {.name = "numbered", .classes = 10, .training = numbered(23), .test = numbered(7)}; }

struct Filled {
  Images images;
  std::vector<int> labels;
  int count = 0;
};

Filled fill(const Batches& batches, int epoch, int index) {
  Filled filled{batches.blank(), {}, 0};
  filled.count = batches.fill(epoch, index, filled.images, filled.labels);
  return filled;
}

TEST(Batches, AnEpochShowsEachImageOnceInAnOrderOfItsOwn) {
  const DataSet data = numbered_data();
  const Batches batches(data, Part::training, 5, 1, {});
  ASSERT_EQ(batches.count(), 4);
  std::vector<std::vector<int>> orders;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int> first_pixels;
    for (int i = 0; i < batches.count(); ++i) {
      const Filled filled = fill(batches, epoch, i);
      EXPECT_EQ(filled.count, 5);
      for (int n = 0; n < 5; ++n) first_pixels.push_back(filled.images.pixels.at(n, 0));
    }
    orders.push_back(first_pixels);
    std::sort(first_pixels.begin(), first_pixels.end());
    EXPECT_EQ(std::unique(first_pixels.begin(), first_pixels.end()), first_pixels.end());
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(Batches, AreFunctionsOfSeedEpochAndIndex) {
  const DataSet data = numbered_data();
  const Augmentation augment{.flip = true, .crop = 1};
  const Batches one(data, Part::training, 5, 1, augment);
  const Batches same(data, Part::training, 5, 1, augment);
  const Batches other(data, Part::training, 5, 2, augment);
  fill(same, 0, 0);  // a batch does not depend on the batches before it
  EXPECT_TRUE(same_pixels(fill(one, 3, 2).images, fill(same, 3, 2).images));
  EXPECT_EQ(fill(one, 3, 2).labels, fill(same, 3, 2).labels);
  EXPECT_FALSE(same_pixels(fill(one, 3, 2).images, fill(other, 3, 2).images));
}

TEST(Batches, TestingGoesInOrderAndFillsTheLastUp) {
  const DataSet data = numbered_data();
  const Batches batches(data, Part::test, 5, 1, {.flip = false, .crop = 0});
  ASSERT_EQ(batches.count(), 2);
  EXPECT_THAT(fill(batches, 0, 0).labels, testing::ElementsAre(0, 1, 2, 3, 4));
  const Filled last = fill(batches, 0, 1);
  EXPECT_EQ(last.count, 2);
  EXPECT_THAT(last.labels, testing::ElementsAre(5, 6, 0, 0, 0));
  EXPECT_EQ(last.images.pixels.at(1, 0, 1, 1), 63);
  EXPECT_EQ(last.images.pixels.at(4, 0, 1, 1), 0);
}

TEST(Batches, PixelsHaveMeanZeroAndDeviationOneOverTheTrainingSet) {
  const DataSet data = numbered_data();
  const Batches batches(data, Part::training, 23, 1, {});
  const Filled filled = fill(batches, 0, 0);
  double sum = 0.0;
  double squares = 0.0;
  const Tensor values = normalised(filled.images);
  for (const float x : values.span()) {
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 1e-5);
  EXPECT_NEAR(squares / count, 1.0, 1e-5);
}

TEST(Batches, FlipsMirrorAndCropsShift) {
  DataSet data{.name = "one", .classes = 10, .training = numbered(2), .test = numbered(1)};
  data.training.pixels[0] = 2;
  constexpr int kMean = 7;  // the pixels are 2, 1, 2, 3 and 10 to 13, of which the mean is 6.75
  const Batches plain(data, Part::training, 2, 1, {});
  const Batches flipped(data, Part::training, 2, 1, {.flip = true, .crop = 0});
  const Batches cropped(data, Part::training, 2, 1, {.flip = false, .crop = 1});
  int mirrored = 0;
  int shifted = 0;
  for (int epoch = 0; epoch < 30; ++epoch) {
    const Pixels a = fill(plain, epoch, 0).images.pixels;
    const Pixels b = fill(flipped, epoch, 0).images.pixels;
    const Pixels c = fill(cropped, epoch, 0).images.pixels;
    for (int n = 0; n < 2; ++n) {
      const bool same = b.at(n, 0, 0, 0) == a.at(n, 0, 0, 0);
      const bool mirror = b.at(n, 0, 0, 0) == a.at(n, 0, 0, 1) && b.at(n, 0, 1, 1) == a.at(n, 0, 1, 0);
      EXPECT_TRUE(same || mirror);
      mirrored += mirror ? 1 : 0;
      // The window moves one pixel up and left, so the image's first pixel comes last, with the mean colour around it.
      const bool corner = c.at(n, 0, 1, 1) == a.at(n, 0, 0, 0) && c.at(n, 0, 0, 0) == kMean &&
                          c.at(n, 0, 0, 1) == kMean && c.at(n, 0, 1, 0) == kMean;
      shifted += corner ? 1 : 0;
    }
  }
  EXPECT_NEAR(mirrored, 30, 20);
  EXPECT_GT(shifted, 0);
}

TEST(Batches, NameTheOriginalsOfTheirSamples) {
  const DataSet data = numbered_data();
  for (const Augmentation& augment :
       {Augmentation{}, Augmentation{.flip = true}, Augmentation{.flip = true, .crop = 1}}) {
    const Batches batches(data, Part::training, 5, 1, augment);
    for (int epoch = 0; epoch < 4; ++epoch) {
      const Images images = fill(batches, epoch, 2).images;
      const std::vector<int> numbers = batches.numbers(epoch, 2);
      ASSERT_EQ(images.originals.size(), 5U);
      for (int i = 0; i < 5; ++i) {
        const Original& original = images.originals[i];
        ASSERT_EQ(original.pixels.size(), 4U);
        EXPECT_EQ(original.pixels[0], static_cast<std::uint8_t>(10 * numbers[i]));
        std::vector<std::uint8_t> sample(4);
        move_image(original.pixels, {1, 1, 2, 2}, original.view, images.fill, sample);
        EXPECT_TRUE(std::ranges::equal(sample, images.pixels.sample(i)));
      }
    }
  }
  const Images tested = fill(Batches(data, Part::test, 5, 1, {.cutout = 1}), 0, 1).images;
  EXPECT_TRUE(tested.originals.empty()) << "squares are cut out of these images at random places";
  const Images last = fill(Batches(data, Part::test, 5, 1, {}), 0, 1).images;
  EXPECT_EQ(last.originals[1].pixels.size(), 4U);
  EXPECT_TRUE(last.originals[2].pixels.empty()) << "a black image that fills the batch up";
  for (const Augmentation& augment : {Augmentation{.resized_crop = 0.5}, Augmentation{.brightness = 0.5},
                                      Augmentation{.cutout = 1}, Augmentation{.mixup = 0.5}}) {
    EXPECT_TRUE(fill(Batches(data, Part::training, 5, 1, augment), 0, 0).images.originals.empty());
  }
}

TEST(Batches, LargerThanTheTrainingSetAreRefused) {
  const DataSet data = numbered_data();
  try {
    Batches(data, Part::training, 24, 1, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a batch of 24 is larger than the training set of numbered (23"));
  }
}

}  // namespace
}  // namespace convoy
