// The mean and the variance of each channel over a batch of maps, for batch norm.
#pragma once

#include <vector>

#include "core/stage.hpp"
#include "kernels/host/laned_maps.hpp"

namespace convoy {

/// Sums in double precision, because sums in single precision would be the largest error of a net with batch norm. The
/// order of the additions does not depend on the number of threads.
class BatchStatistics {
 public:
  /// `maps` is the layout of maps of this shape.
  BatchStatistics(const Shape& shape, const LanedMaps& maps);

  /// Finds the statistics in one pass over the maps. Those of a channel with a NaN or an infinite value are NaN.
  void find(const float* maps);
  /// Returns each channel's mean in the maps of the last find().
  const std::vector<double>& mean() const { return mean_; }
  /// Returns each channel's mean square of the distance from the mean.
  const std::vector<double>& variance() const { return variance_; }

 private:
  static constexpr int kLanes = 16;
  /// Sums over the pixels of at most kLanes channels: the distances from the channel's first value, and their squares.
  /// Sums of distances are so small that the variance, a difference of two sums, is exact even where the mean is large.
  struct Sums {
    double distances[kLanes];
    double squares[kLanes];
  };

  void add_up(const float* maps, int block, int first_run, int last_run, Sums* sums) const;
  void finish(const float* maps, int block, int group);

  int channels_;
  int lanes_;
  int blocks_;  ///< planes of a sample
  int groups_;  ///< of kLanes lanes, in a plane
  std::size_t pixels_;
  std::size_t run_;  ///< pixels that follow each other in memory and are read together
  int runs_;
  int slices_;              ///< parts of the runs that are summed by themselves
  std::vector<Sums> sums_;  ///< (slices, blocks, groups)
  std::vector<double> mean_;
  std::vector<double> variance_;
};

}  // namespace convoy
