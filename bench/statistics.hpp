// Medians and quartiles of measurements.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace convoy {

/// The lower quartile, the median and the upper quartile.
struct Quartiles {
  double low = 0.0;
  double median = 0.0;
  double high = 0.0;
};

/// Returns the quartiles of the values, which need not be sorted; zeros if there are none.
inline Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double fraction) {
    return values[std::lround(fraction * static_cast<double>(values.size() - 1))];
  };
  return {at(0.25), at(0.5), at(0.75)};
}

/// Returns a 95 % confidence interval of the median of the distribution from which the values were drawn, by the ranks
/// of the values (the normal approximation of the sign test). With fewer than six values it is the smallest and the
/// largest.
inline std::pair<double, double> median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const double low = std::floor(0.5 * n - 0.98 * std::sqrt(n)) - 1;
  const auto first = static_cast<std::size_t>(std::max(0.0, low));
  return {values[first], values[values.size() - 1 - first]};
}

}  // namespace convoy
