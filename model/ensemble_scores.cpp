#include "model/ensemble_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace convoy {

std::vector<float> softmax_of(std::span<const float> outputs, double temperature) {
  const auto top = static_cast<double>(*std::ranges::max_element(outputs));
  std::vector<double> powers;
  double sum = 0.0;
  for (const float output : outputs) {
    powers.push_back(std::exp((static_cast<double>(output) - top) / temperature));
    sum += powers.back();
  }
  std::vector<float> probabilities;
  for (const double power : powers) probabilities.push_back(static_cast<float>(power / sum));
  return probabilities;
}

EnsembleScores::EnsembleScores(Combination how, int members, long images, int classes)
    : how_(how),
      members_(static_cast<float>(members)),
      classes_(static_cast<std::size_t>(classes)),
      scores_(static_cast<std::size_t>(images) * classes_, 0.0F) {}

void EnsembleScores::add(long image, std::span<const float> outputs) {
  invariant(outputs.size() == classes_ && index(image) + classes_ <= scores_.size(),
            "scores have a place for the outputs");
  float* scores = &scores_[index(image)];
  if (how_ == Combination::logits) {
    for (std::size_t c = 0; c < classes_; ++c) scores[c] += outputs[c] / members_;
    return;
  }
  const std::vector<float> probabilities = softmax_of(outputs);
  if (how_ == Combination::probabilities) {
    for (std::size_t c = 0; c < classes_; ++c) scores[c] += probabilities[c] / members_;
    return;
  }
  for (std::size_t c = 0; c < classes_; ++c) scores[c] += probabilities[c] / members_ / (members_ + 1.0F);
  scores[std::ranges::max_element(outputs) - outputs.begin()] += 1.0F / (members_ + 1.0F);
}

double loss_of_scores(Combination how, std::span<const float> scores, int label) {
  const auto at = static_cast<std::size_t>(label);
  switch (how) {
    case Combination::probabilities:
      return -std::log(
          std::max(static_cast<double>(scores[at]), static_cast<double>(std::numeric_limits<float>::min())));
    case Combination::logits: {
      const auto top = static_cast<double>(*std::ranges::max_element(scores));
      double sum = 0.0;
      for (const float score : scores) sum += std::exp(static_cast<double>(score) - top);
      return std::log(sum) - (static_cast<double>(scores[at]) - top);
    }
    case Combination::votes: break;
  }
  invariant(false, "votes have no loss");
  return 0.0;
}

}  // namespace convoy
