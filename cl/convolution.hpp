// The three passes of a convolution on an OpenCL device, computed directly or by matrix products; and of stages of
// other kinds.
#pragma once

#include "cl/shared.hpp"

namespace convoy {

/// Buffers hold the whole batch; `samples` is one micro-batch.
class ClConvolution {
 public:
  virtual ~ClConvolution() = default;
  /// Tell the convolution that its packed copies of inputs or weights are out of date.
  virtual void input_changed() {}
  virtual void weights_changed() {}
  /// Computes the maps from the input, with bias and activation (its code_of), and pooled where the convolution was
  /// made so.
  virtual void forward(const ClBuffer& input, const ClBuffer& weights, const ClBuffer& bias, int activation,
                       const ClBuffer& maps, SampleRange samples) = 0;
  /// Computes the gradient with respect to the convolution's input from the gradient with respect to its output.
  virtual void input_gradient(const ClBuffer& gradient, const ClBuffer& weights, const ClBuffer& input_gradient,
                              SampleRange samples) = 0;
  /// Computes the gradient with respect to the weights for the whole batch.
  virtual void filter_gradient(const ClBuffer& input, const ClBuffer& gradient, const ClBuffer& weight_gradient) = 0;
};

/// Returns a direct convolution by Convoy's own kernels (convolution.cl). With `images` maps and weights are read as
/// images instead of buffers, except in the filter gradient. Where `places` is not null, the forward pass returns the
/// maxima of 2 x 2 places and writes their positions there. Throws Error where the device has too little memory, or no
/// images of this size.
std::unique_ptr<ClConvolution> make_direct_convolution(ClShared& shared, const ShardSpec& spec, bool images,
                                                       const ClBuffer* places);

/// Returns a grouped convolution (grouped.cl). The shard may have any of the filters.
std::unique_ptr<ClConvolution> make_grouped_convolution(ClShared& shared, const ShardSpec& spec);

/// Returns the operation of a stage of another kind, which has no weights and ignores weights, biases and activations
/// (channels.cl, group_norm.cl, resize.cl). The shard may have any of the channels. `input_gradient` must be zero for
/// channels that the shard does not read.
std::unique_ptr<ClConvolution> make_cl_weightless(ClShared& shared, const ShardSpec& spec);
std::unique_ptr<ClConvolution> make_cl_group_norm(ClShared& shared, const ShardSpec& spec);
std::unique_ptr<ClConvolution> make_cl_resizing(ClShared& shared, const ShardSpec& spec);

/// Returns a convolution by CLBlast's matrix products, with kernels of Convoy's own around them (layers.cl). Throws
/// Error where CLBlast is missing.
std::unique_ptr<ClConvolution> make_product_convolution(ClShared& shared, const ShardSpec& spec);

}  // namespace convoy
