// The tiles of a convolution, and the values of their inputs.
#pragma once

#include "kernels/winograd/products.hpp"
#include "kernels/winograd/transforms.hpp"
#include "kernels/winograd/winograd.hpp"

namespace convoy {
namespace {

constexpr int divided_up(int amount, int by) { return (amount + by - 1) / by; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

/// The square tiles that cover the outputs of all samples, sample after sample and row after row.
struct Tiles {
  int outputs;  ///< rows and columns of outputs in a tile
  int columns;
  int of_sample;
  int count;

  Tiles(const WinogradShape& shape, int points)
      : outputs(points + 1 - shape.kernel),
        columns(divided_up(shape.out_w, outputs)),
        of_sample(divided_up(shape.out_h, outputs) * columns),
        count(of_sample * shape.samples) {}

  struct Place {
    int sample;
    int row;  ///< of the tile's first output
    int column;
  };
  Place operator[](int tile) const {
    const int within = tile % of_sample;
    return {tile / of_sample, within / columns * outputs, within % columns * outputs};
  }
};

/// Consecutive tiles.
struct TileRange {
  int first;
  int count;
};

/// Returns the floats from the values of one pair of points to those of the next: those of all tiles and blocks, and a
/// vector more, so that the values of many pairs do not fall into the same lines of a cache.
constexpr std::size_t of_pair(int tiles, int blocks) { return std::size_t(tiles) * blocks * kWidth + kWidth; }

/// Maps of one sample and one block of channels.
struct Plane {
  const float* data;
  int height;
  int width;
};

/// Loads the N x N values whose first one is at `row` and `column`; values outside the map are zero.
template <int N>
CONVOY_INLINE void load_square(const Plane& plane, int row, int column, Vec* values) {
  if (row >= 0 && column >= 0 && row + N <= plane.height && column + N <= plane.width) {
    const float* from = plane.data + (std::size_t(row) * plane.width + column) * kWidth;
#pragma GCC unroll 8
    for (int y = 0; y < N; ++y) {
#pragma GCC unroll 8
      for (int x = 0; x < N; ++x) values[y * N + x] = load(from + (std::size_t(y) * plane.width + x) * kWidth);
    }
    return;
  }
  for (int y = 0; y < N; ++y) {
    for (int x = 0; x < N; ++x) {
      const bool inside = row + y >= 0 && row + y < plane.height && column + x >= 0 && column + x < plane.width;
      values[y * N + x] =
          inside ? load(plane.data + (std::size_t(row + y) * plane.width + column + x) * kWidth) : zero();
    }
  }
}

template <int P>
CONVOY_INLINE void store_values(const Vec* values, float* to, std::size_t pair) {
#pragma GCC unroll 64
  for (int p = 0; p < P * P; ++p) store(to + p * pair, values[p]);
}

template <int P>
CONVOY_INLINE void load_values(const float* from, std::size_t pair, Vec* values) {
#pragma GCC unroll 64
  for (int p = 0; p < P * P; ++p) values[p] = load(from + p * pair);
}

/// Values at the pairs of points.
struct Values {
  float* data;
  std::size_t pair;  ///< floats from one pair of points to the next
};

/// Computes the values of the inputs of some tiles and one block of channels: (pair of points, tile, channel).
template <int P>
void spread_inputs(const WinogradShape& shape, const Tiles& tiles, const float* input, TileRange range, int block,
                   const Values& values) {
  const std::size_t plane = std::size_t(shape.in_h) * shape.in_w * kWidth;
  for (int i = 0; i < range.count; ++i) {
    const Tiles::Place place = tiles[range.first + i];
    const float* maps = input + place.sample * shape.in_sample + block * plane;
    Vec square[P * P];
    load_square<P>({maps, shape.in_h, shape.in_w}, place.row - shape.pad_top, place.column - shape.pad_left, square);
    spread_square<P>(square);
    store_values<P>(square, values.data + std::size_t(i) * kWidth, values.pair);
  }
}

}  // namespace
}  // namespace convoy
