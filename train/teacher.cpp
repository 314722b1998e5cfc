#include "train/teacher.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "model/ensemble_scores.hpp"

namespace convoy {

/// The probabilities of the first `count` images of a batch: (count, classes).
Tensor Teacher::probabilities(const Images& images, int count) {
  Tensor mean(Shape{count, classes_}, 0.0F);
  const auto share = static_cast<float>(voices_.size());
  for (const Voice& voice : voices_) {
    const Tensor& outputs = voice.learner->outputs({images.pixels, voice.scales});
    for (int n = 0; n < count; ++n) {
      const auto row = outputs.sample(n);
      if (!std::ranges::all_of(row, [](float value) { return std::isfinite(value); })) {
        fail("training.teacher {}: its outputs for a training image are infinite or NaN; check its weights",
             voice.name);
      }
      const std::vector<float> soft = softmax_of(row, teaching_.temperature);
      const auto sum = mean.sample(n);
      for (std::size_t c = 0; c < soft.size(); ++c) sum[c] += soft[c] / share;
    }
  }
  return mean;
}

bool Teacher::remember(const Batches& in_order, long images, const std::atomic<bool>& stop) {
  Images batch = in_order.blank();
  std::vector<int> labels;
  remembered_.reserve(static_cast<std::size_t>(images) * static_cast<std::size_t>(classes_));
  for (int i = 0; i < in_order.count(); ++i) {
    if (stop) return false;
    const int count = in_order.fill(0, i, batch, labels);
    const Tensor found = probabilities(batch, count);
    remembered_.insert(remembered_.end(), found.span().begin(), found.span().end());
  }
  invariant(remembered_.size() == static_cast<std::size_t>(images) * static_cast<std::size_t>(classes_),
            "each image has its probabilities");
  return true;
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
    const auto from =
        remembered_.begin() + static_cast<std::ptrdiff_t>(numbers[static_cast<std::size_t>(n)]) * classes_;
    std::copy(from, from + classes_, labels.soft.sample(n).begin());
  }
}

}  // namespace convoy
