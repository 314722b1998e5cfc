// The kernels of the .cl files, compiled for one device.
#pragma once

#include "cl/context.hpp"
#include "core/stage.hpp"

namespace convoy {

/// The text of a .cl file, embedded when the program was built.
extern const char* const kConvolutionSource;
extern const char* const kFilterGradientSource;
extern const char* const kGroupedSource;
extern const char* const kLayersSource;
extern const char* const kMapsSource;
extern const char* const kNormSource;

struct LayerKernels {
  ClKernel pack, pack_weights, apply_activation, activation_gradient, multiply, add, copy, max_pool, max_pool_gradient,
      average_pool, average_pool_gradient, sum_maps, sum_slices, update;
  ClKernel pack_half, pack_weights_half;  ///< built where settings.half asks for them

  explicit LayerKernels(ClContext& context);
};

struct NormKernels {
  ClKernel square_distances, norm_moments, normalise, norm_products, norm_gradient;

  explicit NormKernels(ClContext& context);
};

/// What products of matrices need around them.
struct ColumnKernels {
  ClKernel to_columns, from_columns, from_channels, to_channels;

  explicit ColumnKernels(ClContext& context);
};

struct GroupedKernels {
  ClKernel convolve, input_gradient, filter_gradient;

  explicit GroupedKernels(ClContext& context);
  /// As those of ConvolutionKernels.
  GroupedKernels timed_apart() const;
};

/// How much a work-item of the convolutions computes.
struct ClTile {
  int width = 4;             ///< columns in a vector
  int filters = 8;           ///< of `convolve`, for two vectors each
  int gradient_filters = 6;  ///< of `filter_gradient`; by columns a tap's load, across cache lines, costs most
  int gradient_taps = 4;
  int gradient_blocks = 5;           ///< of taps, one after another
  bool gradient_by_filters = false;  ///< its vectors are of filters, not of columns
  bool half = false;                 ///< input and weights in 16 bits
  bool images = false;               ///< `convolve` reads them as images
  bool pools = false;                ///< `convolve` pools
  auto operator<=>(const ClTile&) const = default;

  /// Has `filter_gradient` take vectors of filters, and whole rows of kernels of so many columns: as few vectors go to
  /// waste on `count` filters as may be, and as many sums as the registers hold.
  void take_gradient_by_filters(int count, int kernel_w);
  /// Samples whose gradients, of `plane` values a filter, stay in the first cache while a work-item's blocks of taps go
  /// through them.
  int gradient_chunk(std::size_t plane) const;
};

/// The number of filters for a work-item's tile that wastes least on `filters` of them; of texels, whole ones.
int filters_of_tile(int filters, bool images);

struct ConvolutionKernels {
  ClTile tile;
  ClKernel convolve, filter_gradient;
  ClKernel side_by_side;  ///< built where the gradient is taken by filters

  ConvolutionKernels(ClContext& context, const ClTile& tile, const Convolution& geometry);
  /// For one convolution: what a work-item costs depends on its channels and maps.
  ConvolutionKernels timed_apart() const;
};

}  // namespace convoy
