// Max pooling of maps in channels-last or blocked layouts, where one vector instruction compares several channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/stage.hpp"
#include "kernels/host/laned_maps.hpp"

namespace convoy {

/// The origin of a maximum: the index of its element in the window, or kNoPlace.
using PoolPlace = std::uint16_t;
constexpr PoolPlace kNoPlace = 0xFFFF;

/// An element of the input together with a window that covers it.
struct PoolCover {
  std::size_t at;      ///< offset in the plane of the element (forward) or of the window's output (backward)
  std::int32_t place;  ///< index of the element in the window
};

/// For each pixel, the elements under its window, or the windows over it.
struct PoolCovers {
  std::vector<PoolCover> covers;
  std::vector<std::size_t> starts;  ///< of each pixel's covers, and the end of the last one's

  std::span<const PoolCover> of(std::size_t pixel) const {
    return std::span(covers).subspan(starts[pixel], starts[pixel + 1] - starts[pixel]);
  }
};

/// Max pooling of one geometry. Padding never wins; among equal elements the first in row-major order does. A NaN wins
/// over every number.
class MaxPool {
 public:
  MaxPool(const Pooling& pool, const LanedMaps& maps);

  /// `output` and `places` have the input's planes and lanes, and the height and width of pooled_shape(). Set
  /// `after_relu` where the input is a ReLU's output: a maximum of zero then has no place, because the ReLU's slope is
  /// zero there, so that backward yields the gradient with respect to the ReLU's input.
  void forward(const float* input, bool after_relu, float* output, PoolPlace* places) const;
  /// Writes, for each element of the input, the sum of `gradient` over the windows whose maximum it is.
  void backward(const float* gradient, const PoolPlace* places, float* input_gradient) const;

 private:
  std::size_t lanes_in(std::size_t pixels) const { return pixels * in_.lanes; }

  LanedMaps in_;
  Shape out_;
  // The tables are built once, so that the passes only read them.
  PoolCovers elements_;  ///< the elements under each window
  PoolCovers windows_;   ///< the windows over each element
};

}  // namespace convoy
