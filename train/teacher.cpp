#include "train/teacher.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "model/ensemble_scores.hpp"

namespace convoy {

void add_to_mean(std::span<const float> outputs, double temperature, std::size_t nets, std::span<float> mean) {
  const auto share = static_cast<float>(nets);
  const std::vector<float> soft = softmax_of(outputs, temperature);
  for (std::size_t c = 0; c < soft.size(); ++c) mean[c] += soft[c] / share;
}

/// The probabilities of the first `count` images of a batch: (count, classes).
Tensor Teacher::probabilities(const Images& images, int count) {
  Tensor mean(Shape{count, classes_}, 0.0F);
  for (const Voice& voice : voices_) {
    const Tensor& outputs = voice.learner->outputs({images.pixels, voice.scales});
    for (int n = 0; n < count; ++n) {
      const auto row = outputs.sample(n);
      if (!std::ranges::all_of(row, [](float value) { return std::isfinite(value); })) {
        fail("training.teacher {}: its outputs for a training image are infinite or NaN; check its weights",
             voice.name);
      }
      add_to_mean(row, teaching_.temperature, voices_.size(), mean.sample(n));
    }
  }
  return mean;
}

void Teacher::teach(const Batches& training, int epoch, int index, const Images& images, Labels& labels) {
  const int count = images.shape().n;
  labels.temperature = teaching_.temperature;
  labels.mix = teaching_.mix;
  if (remembered_.empty()) {
    labels.soft = probabilities(images, count);
    return;
  }
  if (labels.soft.shape() != Shape{count, classes_}) labels.soft = Tensor(Shape{count, classes_});
  const std::vector<int> numbers = training.numbers(epoch, index);
  for (int n = 0; n < count; ++n) {
    const auto from = remembered_.begin() + static_cast<std::ptrdiff_t>(numbers[n]) * classes_;
    std::copy(from, from + classes_, labels.soft.sample(n).begin());
  }
}

}  // namespace convoy
