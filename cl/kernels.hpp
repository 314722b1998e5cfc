// The kernels of the .cl files, compiled for one device.
#pragma once

#include "cl/context.hpp"
#include "core/stage.hpp"

namespace convoy {

/// The text of each .cl file, which the build embeds.
extern const char* const kActivationSource;
extern const char* const kChannelsSource;
extern const char* const kColumnsSource;
extern const char* const kConvolutionSource;
extern const char* const kDropoutSource;
extern const char* const kFilterGradientSource;
extern const char* const kGroupNormSource;
extern const char* const kGroupedSource;
extern const char* const kLayersSource;
extern const char* const kMapsSource;
extern const char* const kNormSource;
extern const char* const kResizeSource;
extern const char* const kUpdateSource;
extern const char* const kVectorsSource;

/// The kernels of layers.cl and update.cl that every shard may need.
struct LayerKernels {
  ClKernel pack, pack_weights, apply_activation, activation_gradient, multiply, multiply_by_points, sum_products, add,
      take_channels, max_pool, max_pool_gradient, fused_pool_gradient, average_pool, average_pool_gradient, sum_maps,
      sum_slices, find_broken, update;
  ClKernel pack_half, pack_weights_half;  ///< built where settings.half is set

  explicit LayerKernels(ClContext& context);
};

/// The kernels of activation.cl, built for the activation with this number (code_of).
struct ActivationKernels {
  ClKernel activate, gradient;

  ActivationKernels(ClContext& context, int activation);
};

/// The kernels of norm.cl.
struct NormKernels {
  ClKernel square_distances, norm_moments, normalise, norm_products, norm_gradient;

  explicit NormKernels(ClContext& context);
};

/// The kernels of channels.cl.
struct ChannelKernels {
  ClKernel shuffle_channels, normalise_response, response_parts, response_gradient;

  explicit ChannelKernels(ClContext& context);
};

/// The kernels of group_norm.cl, built for norms of whole groups or by position.
struct GroupNormKernels {
  ClKernel set_moments, set_slopes, normalise, gradient;

  GroupNormKernels(ClContext& context, bool by_position);
  /// Like ConvolutionKernels::timed_apart().
  GroupNormKernels timed_apart() const;
};

/// The kernels of resize.cl.
struct ResizeKernels {
  ClKernel resize, gradient;

  explicit ResizeKernels(ClContext& context);
};

/// The kernel of dropout.cl.
struct DropoutKernels {
  ClKernel drop_out;

  explicit DropoutKernels(ClContext& context);
};

/// The kernels that prepare and finish matrix products.
struct ColumnKernels {
  ClKernel to_columns, from_columns, from_channels, to_channels;

  explicit ColumnKernels(ClContext& context);
};

/// The kernels of grouped.cl.
struct GroupedKernels {
  ClKernel convolve, input_gradient, filter_gradient;

  explicit GroupedKernels(ClContext& context);
  /// Like ConvolutionKernels::timed_apart().
  GroupedKernels timed_apart() const;
};

/// The amount of work of a work-item of `convolve`.
struct ClTile {
  int width = 4;        ///< columns of a vector
  int filters = 8;      ///< each takes two vectors
  bool half = false;    ///< input and weights are in 16 bits
  bool images = false;  ///< input and weights are read as images
  bool pools = false;   ///< the convolution includes the max pooling
  auto operator<=>(const ClTile&) const = default;
};

/// The amount of work of a work-item of `filter_gradient`.
struct ClGradientTile {
  int width = 4;    ///< values of a vector
  int filters = 6;  ///< without by_filters, loading the taps across cache lines costs most
  int taps = 4;
  int blocks = 5;           ///< blocks of taps, one after another
  bool by_filters = false;  ///< vectors run over filters instead of columns
  bool half = false;        ///< the input is in 16 bits
  auto operator<=>(const ClGradientTile&) const = default;

  /// Makes the tile use vectors of filters and whole kernel rows of `kernel_w` columns. It wastes as few vectors as
  /// possible on `count` filters and keeps as many sums as the registers hold.
  void take_vectors_of_filters(int count, int kernel_w);
  /// Returns the number of samples whose gradients, of `plane` values per filter, stay in the first-level cache while a
  /// work-item's blocks of taps go through them.
  int chunk(std::size_t plane) const;
};

/// Returns the number of filters for a work-item's tile at which `filters` filters cost least; with images, it is a
/// multiple of 4.
int filters_of_tile(int filters, bool images);

/// The kernel of convolution.cl, built for one tile and one geometry.
struct ConvolutionKernels {
  ClTile tile;
  ClKernel convolve;

  ConvolutionKernels(ClContext& context, const ClTile& tile, const Convolution& geometry);
  /// Returns the kernel with a timing of its own for one convolution, because the cost of a work-item depends on its
  /// channels and maps.
  ConvolutionKernels timed_apart() const { return {tile, convolve.timed_apart()}; }

 private:
  ConvolutionKernels(const ClTile& tile_of_item, ClKernel kernel) : tile(tile_of_item), convolve(std::move(kernel)) {}
};

/// The kernels of filter_gradient.cl, built for one tile and one geometry.
struct FilterGradientKernels {
  ClGradientTile tile;
  ClKernel filter_gradient;
  ClKernel side_by_side;  ///< built where by_filters is set

  FilterGradientKernels(ClContext& context, const ClGradientTile& tile, const Convolution& geometry);
  /// Like ConvolutionKernels::timed_apart().
  FilterGradientKernels timed_apart() const;
};

}  // namespace convoy
