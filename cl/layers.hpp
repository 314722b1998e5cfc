// The layers after a convolution on an OpenCL device.
#pragma once

#include "cl/shared.hpp"

namespace convoy {

/// A layer after the convolution. Samples are those of a micro-batch, of buffers that hold the batch; with batch norm in
/// the stage, all.
class ClLayer {
 public:
  virtual ~ClLayer() = default;
  virtual void forward(const Pass& pass, SampleRange samples) = 0;
  virtual const ClTensor& output() const = 0;
  /// From the gradient by output() to the gradient by its input.
  virtual const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) = 0;
  /// In the order of parameters_of().
  virtual std::vector<ClParameter*> parameters() { return {}; }
};

/// A layer that reads `input`. `first_filter` is the whole stage's number of its first channel; `after_relu`: the input is
/// a ReLU's output, and the layer's backward is to include the ReLU's (for max pooling alone). `what` names the stage.
std::unique_ptr<ClLayer> make_cl_layer(ClShared& shared, const ChannelLayer& layer, const ClTensor& input,
                                       int first_filter, bool after_relu, const std::string& what);
/// Adds maps, which have to be set before the first forward.
class ClAdd : public ClLayer {
 public:
  virtual void connect(const ClTensor& added) = 0;
  /// As tensors: of the maps, and of what the last backward gave, to both.
  virtual const ClTensor& gradient() const = 0;
};
std::unique_ptr<ClAdd> make_cl_add(ClShared& shared, const ClTensor& input, const std::string& what);
std::unique_ptr<ClLayer> make_cl_batch_norm(ClShared& shared, const BatchNorm& layer, int moments,
                                            const ClTensor& input, const std::string& what);
/// Backward alone of the max pooling by which the convolution went from maps of shape `from` to `output`; `places` as the
/// convolution wrote them.
std::unique_ptr<ClLayer> make_cl_fused_pooling(ClShared& shared, const Pooling& pool, const Shape& from,
                                               const ClTensor& output, const ClBuffer& places, const std::string& what);
/// Backward alone of an activation that the convolution applied to `output`.
std::unique_ptr<ClLayer> make_cl_fused_activation(ClShared& shared, const Activation& activation,
                                                  const ClTensor& output, const std::string& what);

}  // namespace convoy
