// The statistics of a batch norm whose batch several shards share. Shards with the same filters and different samples
// are the rows of a stage; each finds its own numbers, and all of them combine the numbers of all rows in the same way.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// The numbers of one row for a batch norm of C channels, 2 C values. Moments are the C means, then the C variances
/// (mean squares of the distances from the mean) of the norm's input. Slopes, with dy the gradient with respect to the
/// norm's output and y' the normalised input before weight and bias, are the C sums of dy, then the C sums of dy * y'.
struct RowStatistics {
  int samples = 0;
  std::vector<float> values;
};

/// Returns the moments of all samples, added in double in the order of the rows by the formula of Chan, Golub and
/// LeVeque (1979). NaN spreads.
std::vector<double> join_moments(std::span<const RowStatistics> rows);
/// Returns the slopes of all samples, added in double in the order of the rows.
std::vector<double> join_slopes(std::span<const RowStatistics> rows);

/// Returns the slice of moments or slopes that belongs to some channels.
template <class T>
std::vector<T> statistics_of(std::span<const T> values, FilterRange channels) {
  const std::size_t all = values.size() / 2;
  std::vector<T> some;
  for (const std::size_t first : {std::size_t{0}, all}) {
    const auto part =
        values.subspan(first + static_cast<std::size_t>(channels.first), static_cast<std::size_t>(channels.count));
    some.insert(some.end(), part.begin(), part.end());
  }
  return some;
}

/// Replaces the numbers of some channels in moments or slopes of more channels.
template <class T>
void put_statistics(std::span<const T> some, FilterRange channels, std::span<T> values) {
  const std::size_t all = values.size() / 2;
  const auto count = static_cast<std::size_t>(channels.count);
  for (std::size_t i = 0; i < 2; ++i) {
    std::copy_n(some.begin() + static_cast<std::ptrdiff_t>(i * count), count,
                values.begin() + static_cast<std::ptrdiff_t>(i * all) + channels.first);
  }
}

/// What a batch norm on a GPU needs to know besides its layer.
struct NormSettings {
  int moments = 1;      ///< the optimizer's tensors for each parameter
  int whole_batch = 1;  ///< samples over which all shards together normalise
};

/// Returns what normalises C channels with these joint moments: the C means, then the C reciprocals of the deviations.
inline std::vector<float> scaling_of(const BatchNorm& norm, std::span<const double> joint) {
  std::vector<float> scaling(joint.begin(), joint.end());
  for (std::size_t c = joint.size() / 2; c < joint.size(); ++c) {
    scaling[c] = static_cast<float>(1.0 / std::sqrt(joint[c] + static_cast<double>(norm.epsilon)));
  }
  return scaling;
}

/// Returns a running average (BatchNorm in core/stage.hpp) after a batch with this value.
template <class T>
T next_average(const BatchNorm& norm, T running, double value) {
  const auto momentum = static_cast<double>(norm.momentum);
  return static_cast<T>((1.0 - momentum) * static_cast<double>(running) + momentum * value);
}

/// Returns the unbiased variance of `count` values.
inline double unbiased(double variance, double count) { return count / std::max(1.0, count - 1.0) * variance; }

/// Returns the running averages after a batch with these joint moments: the running means of C channels, then their
/// running variances. `count` is the number of values of each channel in the whole batch.
template <class T>
std::vector<T> next_running(const BatchNorm& norm, std::span<const double> joint, double count,
                            std::span<const T> running) {
  std::vector<T> next(joint.size());
  for (std::size_t i = 0; i < joint.size(); ++i) {
    next[i] = next_average(norm, running[i], i < joint.size() / 2 ? joint[i] : unbiased(joint[i], count));
  }
  return next;
}

}  // namespace convoy
