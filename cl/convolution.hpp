// The three passes of a convolution on an OpenCL device, directly or by products of matrices.
#pragma once

#include "cl/shared.hpp"

namespace convoy {

/// Samples are those of a micro-batch, of buffers that hold the batch.
class ClConvolution {
 public:
  virtual ~ClConvolution() = default;
  /// What is kept of inputs or weights for later passes is out of date.
  virtual void input_changed() {}
  virtual void weights_changed() {}
  /// Input to maps, with bias and activation (as code_of numbers it), pooled where it was made so.
  virtual void forward(const ClBuffer& input, const ClBuffer& weights, const ClBuffer& bias, int activation,
                       const ClBuffer& maps, SampleRange samples) = 0;
  /// From the gradient by the convolution's output to that by its input.
  virtual void input_gradient(const ClBuffer& gradient, const ClBuffer& weights, const ClBuffer& input_gradient,
                              SampleRange samples) = 0;
  /// Of the batch.
  virtual void filter_gradient(const ClBuffer& input, const ClBuffer& gradient, const ClBuffer& weight_gradient) = 0;
};

/// Directly, by kernels of our own (convolution.cl). `images`: maps and weights are read as images, not as buffers, but
/// for the filter gradient. `places`, unless null: the forward pass yields the maxima of 2 x 2 places, and writes there
/// where they lay. Throws Error where the device has no room, or no such images.
std::unique_ptr<ClConvolution> make_direct_convolution(ClShared& shared, const ShardSpec& spec, bool images,
                                                       const ClBuffer* places);

/// In groups, of which the shard may have any filters (grouped.cl).
std::unique_ptr<ClConvolution> make_grouped_convolution(ClShared& shared, const ShardSpec& spec);

/// Products of matrices by CLBlast, with kernels of our own around them (layers.cl). Throws Error where there is no
/// CLBlast.
std::unique_ptr<ClConvolution> make_product_convolution(ClShared& shared, const ShardSpec& spec);

}  // namespace convoy
