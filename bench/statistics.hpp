// Medians and quartiles of measurements.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace convoy {

/// The lower quartile, the median and the upper quartile.
struct Quartiles {
  double low = 0.0;
  double median = 0.0;
  double high = 0.0;
};

inline Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double fraction) {
    return values[static_cast<std::size_t>(std::lround(fraction * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.25), at(0.5), at(0.75)};
}

}  // namespace convoy
