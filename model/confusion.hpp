// Which classes a net takes for which others.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/tensor.hpp"

namespace convoy {

/// Counts images by their class and by the answer, which is the class with the largest output, the first of equal ones.
class Confusion {
 public:
  /// Images of class `label` that were taken for class `answer`.
  struct Mistake {
    int label = 0;
    int answer = 0;
    long images = 0;
  };

  explicit Confusion(int classes);

  /// Counts the first `count` samples of outputs (batch, classes). labels.size() >= count.
  void add(const Tensor& outputs, const std::vector<int>& labels, int count);

  int classes() const { return static_cast<int>(images_.size()); }
  long count(int label, int answer) const;
  /// Images of a class.
  long images(int label) const { return images_[label]; }
  /// Images of any class that were taken for this one.
  long answers(int answer) const { return answers_[answer]; }
  /// The most frequent first; of equally frequent ones the lowest classes first.
  std::vector<Mistake> mistakes() const;

 private:
  std::vector<long> images_;
  std::vector<long> answers_;
  std::map<std::pair<int, int>, long> counts_;  ///< (label, answer) to images, without those that are 0
};

}  // namespace convoy
