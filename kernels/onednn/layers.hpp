// Channel layers in oneDNN's layouts.
#pragma once

#include <memory>
#include <vector>

#include "kernels/onednn/engine.hpp"

namespace convoy {

/// One channel layer after the convolution. `samples` is one micro-batch, or the whole batch where the stage has batch
/// norm.
class OnednnLayer {
 public:
  virtual ~OnednnLayer() = default;
  /// Computes output() from the memory that the layer was made for.
  virtual void forward(const Pass& pass, SampleRange samples) = 0;
  virtual const dnnl::memory& output() const = 0;
  /// Computes the samples of input_gradient() from the gradient with respect to the same samples of output().
  virtual void backward(const dnnl::memory& gradient, SampleRange samples) = 0;
  virtual const dnnl::memory& input_gradient() const = 0;
  /// Returns the shape of the batch's input.
  virtual const Shape& input_shape() const = 0;
  /// Returns the layer's parameters in the order of parameters_of().
  virtual std::vector<const OnednnParameter*> parameters() const { return {}; }
};

/// Returns a layer that reads `input`, of the batch's shape `shape`, in that memory's layout. `micro_batch` is the
/// number of samples of a micro-batch, and `origin` the input's place in the whole stage and batch.
/// Set `after_relu` (for max pooling only) where the input is a ReLU's output and the layer's backward must include the
/// ReLU's.
std::unique_ptr<OnednnLayer> make_onednn_layer(OnednnEngine& engine, const ChannelLayer& layer, const Shape& shape,
                                               int micro_batch, const dnnl::memory& input, const Origin& origin,
                                               bool after_relu);
/// Returns the backward pass of an activation that the convolution, or the layer before, has already applied to
/// `output`. Its derivative follows from the output.
std::unique_ptr<OnednnLayer> make_onednn_activation_backward(OnednnEngine& engine, const Activation& activation,
                                                             const Shape& shape, int micro_batch,
                                                             const dnnl::memory& output);

}  // namespace convoy
