// Convolutions of stride 1 with fewer multiplications (Winograd 1980; Lavin and Gray, 2016, arXiv:1509.09308).
//
// The maps are cut into tiles of M x M outputs. A tile reads P x P inputs, P = M + kernel - 1. Inputs and filters are
// polynomials whose values at P points (0, pairs of a number and its opposite, infinity) are multiplied, so that a tile
// takes P * P multiplications for each channel and filter, where the definition takes M * M * kernel * kernel: 4 times
// as many for kernels of 3 x 3 with 6 points, and 6.25 times as many for 5 x 5 with 8 points. For each of the P * P
// pairs of points, the values of all tiles and channels are a matrix, and those of all channels and filters another;
// their product has the values of all tiles and filters.
//
// Roundings differ from those of sums in 32-bit floats by the definition: for random values the errors are some 1.5
// times as large with 6 points, and some 3.5 times with 8.
#pragma once

#include <cstddef>

namespace convoy {

/// The points for kernels of 3 x 3, whose tiles have 4 x 4 outputs, and of 5 x 5, whose tiles have as many.
inline constexpr int kWinogradPointsOf3 = 6;
inline constexpr int kWinogradPointsOf5 = 8;

/// A convolution of stride 1 without gaps, or one of its groups. Maps are (sample, block of channels, row, column,
/// channel) with blocks of the kernels' `width`; weights are (block of filters, block of channels, row, column,
/// channel, filter). Channels and filters are whole blocks; the channels and filters that fill up the last blocks are
/// zero.
struct WinogradShape {
  int samples = 0;
  int channels = 0;
  int filters = 0;
  int in_h = 0;
  int in_w = 0;
  int out_h = 0;
  int out_w = 0;
  int kernel = 0;  ///< rows and columns: 3 or 5
  int pad_top = 0;
  int pad_left = 0;
  std::size_t in_sample = 0;  ///< floats from one sample of the input to the next, which may have other channels, too
  std::size_t out_sample = 0;
};

/// What the forward pass makes of its sums.
struct WinogradEpilogue {
  const float* bias = nullptr;  ///< added: one for each filter, in whole blocks; null for none
  bool relu = false;            ///< negative results are multiplied by `slope`; NaN stays NaN
  float slope = 0.0F;
};

/// The passes for one kind of vector instructions. They run on `threads` threads of OpenMP. Equal calls give equal
/// bits, and neither the number of threads nor that of the samples changes the maps of a sample.
struct WinogradKernels {
  int width = 0;  ///< floats in a vector
  /// Return the floats of scratch memory that a pass uses. It is fastest where they are aligned to 64 bytes.
  std::size_t (*convolve_scratch)(const WinogradShape& shape, int threads) = nullptr;
  std::size_t (*gradient_scratch)(const WinogradShape& shape, int threads) = nullptr;
  /// Computes the maps. With `turned` the rows and columns of the weights are reversed: with weights whose channels and
  /// filters have changed places, this is the gradient with respect to the input.
  void (*convolve)(const WinogradShape& shape, const float* input, const float* weights, bool turned,
                   const WinogradEpilogue& epilogue, float* output, float* scratch, int threads) = nullptr;
  /// Computes the gradient with respect to the weights from the gradient with respect to the output.
  void (*find_gradient)(const WinogradShape& shape, const float* input, const float* output_gradient,
                        float* weights_gradient, float* scratch, int threads) = nullptr;
};

/// Returns the kernels for vectors of `width` floats, or null where this program or this processor has none.
const WinogradKernels* winograd_kernels(int width);

/// Returns how many times as fast as by the definition the three passes are expected to be. The estimate depends on the
/// shape alone, so that equal runs choose equal kernels.
double winograd_gain(const WinogradShape& shape);

}  // namespace convoy
