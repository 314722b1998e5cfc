#include "master/batches.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.hpp"

namespace convoy {
namespace {

constexpr std::uint64_t kShuffleStream = std::uint64_t{5} << 32;
constexpr std::uint64_t kAugmentStream = std::uint64_t{6} << 32;

/// For each channel the 256 values that bytes become.
std::vector<std::vector<float>> normalisation(const ImageSet& images) {
  const FeatureShape& shape = images.shape;
  const std::size_t map = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  std::vector<std::vector<float>> tables;
  for (int c = 0; c < shape.channels; ++c) {
    std::vector<std::uint64_t> histogram(256, 0);
    for (std::size_t at = static_cast<std::size_t>(c) * map; at < images.pixels.size();
         at += map * static_cast<std::size_t>(shape.channels)) {
      for (std::size_t i = 0; i < map; ++i) ++histogram[images.pixels[at + i]];
    }
    double count = 0.0;
    double sum = 0.0;
    double squares = 0.0;
    for (int value = 0; value < 256; ++value) {
      const double x = value / 255.0;
      const auto times = static_cast<double>(histogram[static_cast<std::size_t>(value)]);
      count += times;
      sum += times * x;
      squares += times * x * x;
    }
    const double mean = sum / count;
    const double deviation = std::sqrt(std::max(squares / count - mean * mean, 1e-8));
    std::vector<float> table(256);
    for (int value = 0; value < 256; ++value) {
      table[static_cast<std::size_t>(value)] = static_cast<float>((value / 255.0 - mean) / deviation);
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

Batches::Batches(const DataSet& data, Part part, int batch, std::uint64_t seed, const Augmentation& augment)
    : images_(part == Part::training ? data.training : data.test),
      part_(part),
      batch_(batch),
      seed_(seed),
      augment_(augment),
      normalised_(normalisation(data.training)) {
  if (part == Part::training && batch > images_.count()) {
    fail("a batch of {} is larger than the training set of {} ({} images); take a smaller --batch", batch, data.name,
         images_.count());
  }
}

int Batches::count() const {
  return part_ == Part::training ? images_.count() / batch_ : (images_.count() + batch_ - 1) / batch_;
}

Shape Batches::image_shape() const {
  return {batch_, images_.shape.channels, images_.shape.height, images_.shape.width};
}

void Batches::shuffle(int epoch) const {
  if (shuffled_ == epoch) return;
  order_.resize(images_.labels.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (part_ == Part::training) {
    Random random(seed_, kShuffleStream + static_cast<std::uint64_t>(epoch));
    random.shuffle(order_);
  }
  shuffled_ = epoch;
}

int Batches::fill(int epoch, int index, Tensor& images, std::vector<int>& labels) const {
  invariant(images.shape() == image_shape() && index >= 0 && index < count(), "a batch of this set");
  shuffle(epoch);
  labels.assign(static_cast<std::size_t>(batch_), 0);
  const int first = index * batch_;
  const int valid = std::min(batch_, images_.count() - first);
  for (int i = 0; i < batch_; ++i) {
    float* to = images.sample(i).data();
    if (i >= valid) {
      std::fill_n(to, images.shape().sample_size(), 0.0F);
      continue;
    }
    const int image = order_[static_cast<std::size_t>(first + i)];
    labels[static_cast<std::size_t>(i)] = images_.labels[static_cast<std::size_t>(image)];
    write_image(image, epoch, to);
  }
  return valid;
}

void Batches::write_image(int image, int epoch, float* to) const {
  const FeatureShape& shape = images_.shape;
  bool flip = false;
  int down = 0;
  int right = 0;
  if (augment_.flip || augment_.crop > 0) {
    // One stream for each image of each epoch: independent of its place in the order.
    Random random(seed_,
                  kAugmentStream + (static_cast<std::uint64_t>(epoch) << 33) + static_cast<std::uint64_t>(image));
    flip = augment_.flip && random.below(2) == 1;
    const auto range = static_cast<std::uint32_t>(2 * augment_.crop + 1);
    down = static_cast<int>(random.below(range)) - augment_.crop;
    right = static_cast<int>(random.below(range)) - augment_.crop;
  }
  const std::uint8_t* from =
      images_.pixels.data() + static_cast<std::size_t>(image) * static_cast<std::size_t>(shape.size());
  for (int c = 0; c < shape.channels; ++c) {
    const float* table = normalised_[static_cast<std::size_t>(c)].data();
    const std::uint8_t* map = from + static_cast<std::ptrdiff_t>(c) * shape.height * shape.width;
    for (int y = 0; y < shape.height; ++y) {
      const int source_y = y + down;
      const bool inside = source_y >= 0 && source_y < shape.height;
      for (int x = 0; x < shape.width; ++x) {
        const int source_x = (flip ? shape.width - 1 - x : x) + right;
        // Outside the image: zero after normalisation, the mean colour.
        *to++ =
            inside && source_x >= 0 && source_x < shape.width ? table[map[source_y * shape.width + source_x]] : 0.0F;
      }
    }
  }
}

}  // namespace convoy
