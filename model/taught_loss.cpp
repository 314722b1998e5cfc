#include "model/taught_loss.hpp"

#include <algorithm>
#include <cmath>

namespace convoy {

template <class T>
double taught_loss(std::span<const T> logits, std::span<const float> teacher, const Labels& labels, double hard,
                   std::span<T> gradient) {
  const double temperature = labels.temperature;
  const double mix = labels.mix;
  const auto top = static_cast<double>(*std::ranges::max_element(logits));
  const auto scaled = [&](std::size_t c) { return (static_cast<double>(logits[c]) - top) / temperature; };
  double sum = 0.0;
  double mass = 0.0;  // of the teacher: 1 but for rounding
  for (std::size_t c = 0; c < logits.size(); ++c) {
    sum += std::exp(scaled(c));
    mass += static_cast<double>(teacher[c]);
  }
  double divergence = 0.0;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    const auto wanted = static_cast<double>(teacher[c]);
    if (wanted > 0.0) divergence += wanted * (std::log(wanted) - (scaled(c) - std::log(sum)));
    // T^2 times the derivative of the divergence, which has a factor of 1 / T.
    const double slope = temperature * (mass * std::exp(scaled(c)) / sum - wanted);
    gradient[c] = static_cast<T>(mix * slope + (1.0 - mix) * static_cast<double>(gradient[c]));
  }
  return mix * temperature * temperature * divergence + (1.0 - mix) * hard;
}
template double taught_loss(std::span<const float>, std::span<const float>, const Labels&, double, std::span<float>);
template double taught_loss(std::span<const double>, std::span<const float>, const Labels&, double, std::span<double>);

Labels Labels::part(int first, int count) const {
  Labels some(std::vector<int>(classes.begin() + first, classes.begin() + first + count));
  some.temperature = temperature;
  some.mix = mix;
  some.share = share;
  if (mixed()) some.others.assign(others.begin() + first, others.begin() + first + count);
  if (!taught()) return some;
  some.soft = Tensor(Shape{count, soft.shape().c});
  std::ranges::copy(soft.samples(first, count), some.soft.data());
  return some;
}

}  // namespace convoy
