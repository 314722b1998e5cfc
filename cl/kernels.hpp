// The kernels of the .cl files, compiled for one device.
#pragma once

#include <map>

#include "cl/context.hpp"
#include "core/stage.hpp"

namespace convoy {

/// The text of a .cl file, embedded when the program was built.
extern const char* const kConvolutionSource;
extern const char* const kLayersSource;

struct LayerKernels {
  ClKernel pack, pack_weights, apply_activation, activation_gradient, multiply, max_pool, max_pool_gradient, average_pool,
      average_pool_gradient, sum_maps, sum_slices, update;

  explicit LayerKernels(ClContext& context);
};

/// How much a work-item of the convolutions computes.
struct ClTile {
  int width = 4;             ///< columns in a vector
  int filters = 8;           ///< of `convolve`
  int gradient_filters = 4;  ///< of `filter_gradient`
  int gradient_taps = 5;
};

struct ConvolutionKernels {
  ClKernel convolve, filter_gradient;

  ConvolutionKernels(ClContext& context, const ClTile& tile, const Convolution& geometry);
};

}  // namespace convoy
