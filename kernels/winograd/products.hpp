// The matrix products of the passes.
#pragma once

#include <cstddef>

#include "kernels/winograd/vectors.hpp"

namespace convoy {
namespace {

/// Where sums go: block b has the sums of filters b * kWidth and following, row after row.
struct Blocks {
  float* data;
  std::size_t block;  ///< floats from one block to the next
};

/// Sums of products for R rows and N vectors of columns:
///   sums[r][n] += over blocks b and steps s: factor[b * block + r * kRow + s * kStep] *
///                                           columns[b * column_block + n * next_columns + s * column_step]
/// All sums stay in registers. `added` says whether they start with the sums that are there.
template <int R, int N, int kRow, int kStep, int kSteps>
CONVOY_INLINE void multiply(const float* factor, std::size_t block, const float* columns, std::size_t column_block,
                            std::size_t next_columns, int column_step, int blocks, const Blocks& sums, bool added) {
  Vec sum[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int n = 0; n < N; ++n) sum[r][n] = added ? load(sums.data + n * sums.block + r * kWidth) : zero();
  }
  for (int b = 0; b < blocks; ++b, factor += block, columns += column_block) {
#pragma GCC unroll 4
    for (int s = 0; s < kSteps; ++s) {
      Vec column[N];
#pragma GCC unroll 3
      for (int n = 0; n < N; ++n) column[n] = load(columns + n * next_columns + s * column_step);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec value = all(factor[r * kRow + s * kStep]);
#pragma GCC unroll 3
        for (int n = 0; n < N; ++n) sum[r][n] = fma(value, column[n], sum[r][n]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int n = 0; n < N; ++n) store(sums.data + n * sums.block + r * kWidth, sum[r][n]);
  }
}

/// Multiplies the values of `rows` tiles (at most R), which lie `block` floats apart for one block of channels and the
/// next, by a panel of N blocks of filters, over all channels. The panel has the filters of its N blocks side by side
/// for each channel.
template <int R, int N>
void multiply_tiles(int rows, const float* values, std::size_t block, int channel_blocks, const float* panel,
                    const Blocks& sums, bool added) {
  if constexpr (R > 0) {
    if (rows < R) return multiply_tiles<R - 1, N>(rows, values, block, channel_blocks, panel, sums, added);
    multiply<R, N, kWidth, 1, kWidth>(values, block, panel, std::size_t{N} * kWidth * kWidth, kWidth, N * kWidth,
                                      channel_blocks, sums, added);
  }
}

/// Multiplies the values of a block of channels by those of N blocks of filters, over all tiles.
template <int N>
void multiply_channels(const float* values, const float* gradients, int tiles, const Blocks& sums, bool added) {
  constexpr int kRows = kWidth / 2;
  for (int r = 0; r < kWidth; r += kRows) {
    multiply<kRows, N, 1, kWidth, 1>(values + r, kWidth, gradients, kWidth, std::size_t(tiles) * kWidth, 0, tiles,
                                     {sums.data + r * kWidth, sums.block}, added);
  }
}

}  // namespace
}  // namespace convoy
