// Means of trials with intervals.
#pragma once

#include <vector>

namespace convoy::study {

/// A mean, and the half-width of its interval of 95 %.
struct Estimate {
  double value = 0;
  double error = 0;
};

/// Returns the factor by which the standard error of a mean of `count` values, 2 or more, is multiplied for an interval of
/// 95 %: the 0.975 quantile of Student's t distribution with count - 1 degrees of freedom.
double t_factor(int count);

/// Returns the mean of two or more values and its interval: the root of the sum of the squares of
///   the spread    t_factor() standard errors of the mean;
///   the readings  the mean of `errors`, the half-widths of the values' own intervals. The errors of a meter may be the same in
///                 all trials, so trials do not narrow this part.
/// `errors` is empty where the values are exact, and otherwise has the size of `values`.
Estimate mean_of(const std::vector<double>& values, const std::vector<double>& errors);

}  // namespace convoy::study
