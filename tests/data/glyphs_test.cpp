// Tests that the glyphs are the same on every machine and too hard for a linear classifier.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/batches.hpp"
#include "data/dataset.hpp"
#include "model/head.hpp"
#include "tests/support/images.hpp"

namespace convoy {
namespace {

std::uint64_t checksum(const ImageSet& images) {  // FNV-1a
  std::uint64_t hash = 14695981039346656037ULL;
  const auto mix = [&](const auto& bytes) {
    for (const auto byte : bytes) hash = (hash ^ byte) * 1099511628211ULL;
  };
  mix(images.pixels);
  mix(images.labels);
  return hash;
}

TEST(Glyphs, AreTheSameOnEveryMachine) {
  const DataSet data = draw_glyphs(1, 200, 50);
  EXPECT_EQ(checksum(data.training), 14081275225353522597ULL);
  EXPECT_EQ(checksum(data.test), 13132527168554504675ULL);
  EXPECT_NE(checksum(draw_glyphs(2, 200, 50).training), checksum(data.training));
}

TEST(Glyphs, AreTenClassesAboutEquallyFrequent) {
  const DataSet data = draw_glyphs(3, 1000, 50);
  for (int label = 0; label < 10; ++label) {
    // The bound is five standard deviations of a count of 1000 draws with probability 1/10.
    EXPECT_NEAR(std::count(data.training.labels.begin(), data.training.labels.end(), label), 100, 48);
  }
  EXPECT_EQ(data.training.shape, (FeatureShape{1, 28, 28}));
}

TEST(Glyphs, NoImageIsInBothSets) {
  const DataSet data = draw_glyphs(1, 1000, 500);
  const std::size_t size = 28 * 28;
  std::set<std::vector<std::uint8_t>> seen;
  const auto image = [&](const ImageSet& set, int i) {
    const auto first = set.pixels.begin() + static_cast<std::ptrdiff_t>(i * size);
    return std::vector<std::uint8_t>(first, first + size);
  };
  for (int i = 0; i < 1000; ++i) seen.insert(image(data.training, i));
  EXPECT_EQ(seen.size(), 1000U);
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(seen.contains(image(data.test, i)));
}

/// The linear classifier is softmax regression on the pixels, trained until its accuracy on unseen images stops rising.
TEST(Glyphs, ALinearClassifierStaysUnderNinetyPercent) {
  const DataSet data = draw_glyphs(1);
  constexpr int kBatch = 50;
  const CutHead cut{.maps = data.training.shape,
                    .layers = {{.name = "dense", .spec = Dense{10}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}};
  Head<float> head(cut, 1, kBatch);
  const Batches training(data, Part::training, kBatch, 1, {});
  const Batches test(data, Part::test, kBatch, 1, {});
  Images images = training.blank();
  std::vector<int> labels;
  double seen = 0.0;
  double best = 0.0;
  for (int epoch = 0; epoch < 8; ++epoch) {
    int learnt = 0;
    for (int i = 0; i < training.count(); ++i) {
      training.fill(epoch, i, images, labels);
      const Tensor values = normalised(images);
      head.forward(values, {.training = true});
      learnt += head.loss(labels, kBatch).correct;
      head.backward();
      head.backward_weights();
      head.update({.learning_rate = epoch < 4 ? 0.01F : 0.003F, .momentum = 0.9F});
    }
    int correct = 0;
    for (int i = 0; i < test.count(); ++i) {
      const int count = test.fill(0, i, images, labels);
      head.forward(normalised(images), {});
      correct += head.loss(labels, count).correct;
    }
    seen = static_cast<double>(learnt) / (training.count() * kBatch);
    best = std::max(best, static_cast<double>(correct) / data.test.count());
  }
  EXPECT_LT(best, 0.9);
  EXPECT_GT(seen, 0.25) << "the classifier must learn something, or the test shows nothing";
}

}  // namespace
}  // namespace convoy
