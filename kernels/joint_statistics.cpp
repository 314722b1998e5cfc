#include "kernels/joint_statistics.hpp"

#include "core/error.hpp"

namespace convoy {
namespace {

std::size_t size_of(std::span<const RowStatistics> rows) {
  invariant(!rows.empty(), "a stage has rows");
  for (const RowStatistics& row : rows) {
    invariant(row.samples > 0 && row.values.size() == rows.front().values.size(), "rows have the same channels");
  }
  return rows.front().values.size();
}

}  // namespace

std::vector<double> join_moments(std::span<const RowStatistics> rows) {
  std::vector<double> joint(size_of(rows), 0.0);
  const std::size_t channels = joint.size() / 2;
  for (std::size_t c = 0; c < channels; ++c) {
    double samples = 0.0;
    double mean = 0.0;
    double squares = 0.0;  // of the distances from the mean, by sample
    for (const RowStatistics& row : rows) {
      const auto more = static_cast<double>(row.samples);
      const double distance = static_cast<double>(row.values[c]) - mean;
      const double share = more / (samples + more);
      mean += distance * share;
      squares += more * static_cast<double>(row.values[channels + c]) + distance * distance * samples * share;
      samples += more;
    }
    joint[c] = mean;
    joint[channels + c] = squares / samples;
  }
  return joint;
}

std::vector<double> join_slopes(std::span<const RowStatistics> rows) {
  std::vector<double> joint(size_of(rows), 0.0);
  for (const RowStatistics& row : rows) {
    for (std::size_t i = 0; i < joint.size(); ++i) joint[i] += static_cast<double>(row.values[i]);
  }
  return joint;
}

}  // namespace convoy
