// The scores of an ensemble, from the outputs of its members.
#pragma once

#include <span>
#include <vector>

#include "nets/graph/combination.hpp"

namespace convoy {

/// Returns the softmax of outputs / temperature. The sum of the result is 1 up to rounding.
std::vector<float> softmax_of(std::span<const float> outputs, double temperature = 1.0);

/// Scores of many images, to which the outputs of one member after another are added. The same outputs in the same
/// order give the same bits.
class EnsembleScores {
 public:
  /// All scores are 0.
  EnsembleScores(Combination how, int members, long images, int classes);

  /// Adds a member's outputs for an image, one for each class and all finite.
  void add(long image, std::span<const float> outputs);
  /// The scores of an image, when all members' outputs have been added.
  std::span<const float> of(long image) const { return {&scores_[index(image)], classes_}; }

 private:
  std::size_t index(long image) const { return static_cast<std::size_t>(image) * classes_; }

  Combination how_;
  float members_;
  std::size_t classes_;
  std::vector<float> scores_;  ///< (image, class)
};

/// The cross-entropy of an ensemble whose members end with a softmax, for an image of the class `label`, from its
/// scores. The scores of votes are no probabilities, and have none.
double loss_of_scores(Combination how, std::span<const float> scores, int label);

}  // namespace convoy
