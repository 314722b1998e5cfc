// The layers after a convolution on an OpenCL device.
#pragma once

#include "cl/shared.hpp"
#include "kernels/joint_statistics.hpp"

namespace convoy {

/// A layer after the convolution. Buffers hold the whole batch; `samples` is one micro-batch, or the whole batch where
/// the stage has batch norm.
class ClLayer {
 public:
  virtual ~ClLayer() = default;
  virtual void forward(const Pass& pass, SampleRange samples) = 0;
  virtual const ClTensor& output() const = 0;
  /// Returns the gradient with respect to the layer's input, computed from the gradient with respect to output().
  virtual const ClBuffer& backward(const ClBuffer& gradient, SampleRange samples) = 0;
  /// Returns the layer's parameters in the order of parameters_of().
  virtual std::vector<ClParameter*> parameters() { return {}; }
};

/// Returns a layer that reads `input`. `origin` is the input's place in the whole stage and batch.
/// Set `after_relu` (for max pooling only) where the input is a ReLU's output and the layer's backward must include the
/// ReLU's. `what` names the stage in errors.
std::unique_ptr<ClLayer> make_cl_layer(ClShared& shared, const ChannelLayer& layer, const ClTensor& input,
                                       const Origin& origin, bool after_relu, const std::string& what);
/// A layer that takes in other maps, which connect() must set before the first forward.
class ClJoin : public ClLayer {
 public:
  virtual void connect(const ClTensor& maps) = 0;
  /// Returns the gradient of the last backward with respect to these maps, which has their shape.
  virtual const ClTensor& taken_gradient() const = 0;
};
/// Returns a layer that adds maps to `input`, or multiplies it by maps.
std::unique_ptr<ClJoin> make_cl_add(ClShared& shared, const ClTensor& input, const std::string& what);
std::unique_ptr<ClJoin> make_cl_multiply(ClShared& shared, const Multiply& multiply, const ClTensor& input,
                                         const std::string& what);
/// A batch norm. The functions below replace forward and backward where shards join their statistics; they do the same
/// as the functions of Shard, but take_slopes computes this layer alone and returns the gradient with respect to its
/// input.
class ClNorm : public ClLayer {
 public:
  virtual std::vector<float> moments() = 0;
  virtual void normalise(std::span<const double> joint) = 0;
  virtual std::vector<float> slopes(const ClBuffer& gradient) = 0;
  virtual const ClBuffer& take_slopes(std::span<const double> joint) = 0;
};
/// Returns a batch norm that reads `input`.
std::unique_ptr<ClNorm> make_cl_batch_norm(ClShared& shared, const BatchNorm& layer, const NormSettings& settings,
                                           const ClTensor& input, const std::string& what);
/// Returns the backward pass of a max pooling of 2 x 2 elements that the convolution has already applied, from maps of
/// shape `from` to `output`. The convolution wrote `places`.
std::unique_ptr<ClLayer> make_cl_fused_pooling(ClShared& shared, const Shape& from, const ClTensor& output,
                                               const ClBuffer& places, const std::string& what);
/// Returns the backward pass of an activation that the convolution has already applied to `output`.
std::unique_ptr<ClLayer> make_cl_fused_activation(ClShared& shared, const Activation& activation,
                                                  const ClTensor& output, const std::string& what);

}  // namespace convoy
