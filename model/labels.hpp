// The labels of a batch: a class for each image, two classes for each mixed image, and the probabilities that a teacher
// gives for the images.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "core/tensor.hpp"

namespace convoy {

struct Labels {
  Labels() = default;
  /// Classes alone, without a teacher.
  Labels(std::vector<int> of_images)  // NOLINT(google-explicit-constructor): most labels are classes alone
      : classes(std::move(of_images)) {}
  Labels(std::initializer_list<int> of_images) : classes(of_images) {}

  std::vector<int> classes;  ///< one for each image
  /// For each image of a mixed batch, the class of the image mixed in. The loss is `share` times the loss by `classes`,
  /// plus 1 - `share` times the loss by `others` (Zhang et al., mixup, ICLR 2018). Empty if no images are mixed.
  std::vector<int> others;
  double share = 1.0;
  Tensor soft;  ///< (batch, classes): the teacher's probabilities at the temperature; empty without a teacher
  double temperature = 1.0;
  double mix = 0.0;  ///< weight of the teacher's part of the loss, from 0 to 1; see Teaching

  bool mixed() const { return !others.empty(); }
  bool taught() const { return soft.size() > 0; }
  /// The labels of `count` images from `first` on.
  Labels part(int first, int count) const;
};

}  // namespace convoy
