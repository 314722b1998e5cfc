#include "model/confusion.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "model/head.hpp"

namespace convoy {

Confusion::Confusion(int classes)
    : images_(static_cast<std::size_t>(classes), 0), answers_(static_cast<std::size_t>(classes), 0) {}

void Confusion::add(const Tensor& outputs, const std::vector<int>& labels, int count) {
  for (int n = 0; n < count; ++n) {
    const auto row = outputs.sample(n);
    invariant(row.size() == images_.size(), "an output for each class");
    const int label = labels[n];
    const int answer = index_of_largest<float>(row);
    ++images_[label];
    if (answer < 0) continue;
    ++answers_[answer];
    ++counts_[{label, answer}];
  }
}

long Confusion::count(int label, int answer) const {
  const auto found = counts_.find({label, answer});
  return found == counts_.end() ? 0 : found->second;
}

std::vector<Confusion::Mistake> Confusion::mistakes() const {
  std::vector<Mistake> all;
  for (const auto& [pair, images] : counts_) {
    if (pair.first != pair.second) all.push_back({pair.first, pair.second, images});
  }
  std::ranges::stable_sort(all, std::greater<>(), &Mistake::images);
  return all;
}

}  // namespace convoy
