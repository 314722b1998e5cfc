// Max pooling of maps whose channels lie side by side, so that one vector instruction compares several channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// Maps as (planes, height, width, lanes) floats, lanes together: channels last has a plane for each sample, channels in
/// blocks of 16 a plane for each sample's block, plain NCHW a plane and one lane for each channel.
struct LanedMaps {
  int planes = 0;
  int height = 0;
  int width = 0;
  int lanes = 0;
};

/// Where a maximum came from: its element's place in the window, or kNoPlace.
using PoolPlace = std::uint16_t;
constexpr PoolPlace kNoPlace = 0xFFFF;

/// An element of the input and a window that covers it.
struct PoolCover {
  std::size_t at;      ///< lanes before the one in the plane: before the element going forward, the window backward
  std::int32_t place;  ///< of the element in the window
};

/// Max pooling of one geometry. Padding never wins; of equal elements the first does.
class MaxPool {
 public:
  MaxPool(const Pooling& pool, const LanedMaps& maps);

  /// `output` and `places` have the input's planes and lanes, and pooled_shape's height and width. With `after_relu`
  /// (the input is a ReLU's output) a maximum of zero has no place: the ReLU's slope is zero there, so that backward
  /// yields the gradient by the ReLU's input.
  void forward(const float* input, bool after_relu, float* output, PoolPlace* places) const;
  /// For each element of the input the sum of `gradient` over the windows that took it. Writes every element.
  void backward(const float* gradient, const PoolPlace* places, float* input_gradient) const;

 private:
  /// For each pixel what covers it, or what it covers: found once, so that the passes only read.
  struct CoverTable {
    CoverTable() = default;
    /// For each pixel of the map in rows, cover(pixel's y, x, other's y, x) of the others in rows_of(y), columns_of(x).
    template <class Rows, class Columns, class Cover>
    CoverTable(const Shape& map, Rows rows_of, Columns columns_of, Cover cover);

    std::vector<PoolCover> covers;
    std::vector<std::size_t> ends;  ///< of each pixel's covers
    std::span<const PoolCover> of(std::size_t pixel) const;
  };

  std::size_t lanes_in(std::size_t pixels) const { return pixels * in_.lanes; }

  LanedMaps in_;
  Shape out_;
  CoverTable elements_;  ///< under each window
  CoverTable windows_;   ///< over each element
};

}  // namespace convoy
