#include "study/estimate.hpp"

#include <array>
#include <cmath>
#include <numeric>

#include "core/error.hpp"

namespace convoy::study {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double t_factor(int count) {
  constexpr std::array<double, 10> kFirst{31.8205, 6.9646, 4.5407, 3.7469, 3.3649,
                                          3.1427,  2.9980, 2.8965, 2.8214, 2.7638};
  const int freedom = count - 1;
  invariant(freedom >= 1, "an interval of two values or more");
  if (freedom <= static_cast<int>(kFirst.size())) return kFirst[freedom - 1];
  // The expansion about the normal distribution (Abramowitz and Stegun, 26.7.5); from 11 on it is right to 0.0005.
  constexpr double z = 2.326348;
  const double n = freedom;
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  const double z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

Estimate mean_of(const std::vector<double>& values, const std::vector<double>& errors) {
  invariant(errors.empty() || errors.size() == values.size(), "an error for each value");
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  const auto count = static_cast<double>(values.size());
  const double spread = t_factor(static_cast<int>(values.size())) * std::sqrt(squares / (count - 1) / count);
  return {middle, std::hypot(spread, errors.empty() ? 0.0 : mean(errors))};
}

}  // namespace convoy::study
