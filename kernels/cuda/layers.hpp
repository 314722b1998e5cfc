// The layers after a convolution on a GPU.
#pragma once

#include "kernels/cuda/gpu.hpp"
#include "kernels/device.hpp"
#include "kernels/joint_statistics.hpp"

namespace convoy {

/// A tensor of NCHW floats on a GPU.
class CudaTensor : public DeviceTensor {
 public:
  CudaTensor(cuda::Gpu& gpu, const Shape& shape, const std::string& what)
      : gpu_(gpu), shape_(shape), memory_(gpu, shape.size(), what) {}

  Shape shape() const override { return shape_; }
  using DeviceTensor::read;
  using DeviceTensor::take_channels;
  using DeviceTensor::write;
  void take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                     SampleRange samples) override;
  void write(SampleRange samples, std::span<const float> values) override {
    invariant(values.size() == size_of(samples), "the values fill the samples");
    gpu_.write(data(samples), values.data(), values.size());
  }
  bool write_pixels(SampleRange samples, std::span<const std::uint8_t> pixels, const Normaliser& normaliser) override;
  void read(SampleRange samples, std::span<float> values) const override {
    invariant(values.size() == size_of(samples), "the values fill the samples");
    gpu_.read(data(samples), values.data(), values.size());
  }
  Tensor to_host() const {
    Tensor tensor(shape_);
    read(tensor.span());
    return tensor;
  }
  int size() const { return static_cast<int>(shape_.size()); }
  float* data() const { return memory_.data(); }
  /// Returns the number of elements of some samples.
  std::size_t size_of(SampleRange samples) const {
    return static_cast<std::size_t>(samples.count) * shape_.sample_size();
  }
  float* data(SampleRange samples) const {
    return memory_.data() + static_cast<std::size_t>(samples.first) * shape_.sample_size();
  }
  const cuda::Gpu& gpu() const { return gpu_; }

 private:
  cuda::Gpu& gpu_;
  Shape shape_;
  cuda::Memory<float> memory_;
  cuda::Memory<std::uint8_t> pixels_;  ///< the pixels of the whole batch; empty until write_pixels()
  cuda::Memory<float> table_;          ///< the normalised value of each level of a pixel, by channel
};

/// A parameter with the optimizer's moments.
struct CudaParameter {
  CudaTensor values;
  std::vector<std::unique_ptr<CudaTensor>> moments;
  std::unique_ptr<CudaTensor> gradient;  ///< null if the parameter is not trained
  float rate;                            ///< factor of the learning rate; 0: the parameter is not trained

  CudaParameter(cuda::Gpu& gpu, const Shape& shape, float factor, int count, const std::string& what)
      : values(gpu, shape, what), rate(factor) {
    if (rate == 0.0F) return;
    for (int i = 0; i < count; ++i) moments.push_back(std::make_unique<CudaTensor>(gpu, shape, what));
    gradient = std::make_unique<CudaTensor>(gpu, shape, what);
  }

  /// Sets `broken` if a result is not finite or, for an untrained parameter, if a value is not finite.
  void update(cuda::Gpu& gpu, const UpdateStep& step, int* broken) const;
  Parameter to_host() const;
  void take(const Parameter& from);
};

/// A layer after the convolution. Tensors hold the whole batch; `samples` is one micro-batch, or the whole batch if
/// the stage has a batch norm.
class CudaLayer {
 public:
  virtual ~CudaLayer() = default;
  virtual void forward(const Pass& pass, SampleRange samples) = 0;
  virtual const CudaTensor& output() const = 0;
  /// Returns the gradient with respect to the layer's input, computed from the gradient with respect to output().
  virtual const CudaTensor& backward(const CudaTensor& gradient, SampleRange samples) = 0;
  /// Returns the layer's parameters in the order of parameters_of().
  virtual std::vector<CudaParameter*> parameters() { return {}; }
};

/// Returns a layer that reads `input`. `origin` is the input's place in the whole stage and batch.
/// Set `after_relu` (for max pooling only) if the input is a ReLU's output and the layer's backward pass must include
/// the backward pass of the ReLU. `what` names the stage in errors.
std::unique_ptr<CudaLayer> make_cuda_layer(cuda::Gpu& gpu, const ChannelLayer& layer, const CudaTensor& input,
                                           const Origin& origin, bool after_relu, const std::string& what);
/// A layer that joins its input with other maps. connect() must set these before the first forward pass.
class CudaJoin : public CudaLayer {
 public:
  virtual void connect(const CudaTensor& maps) = 0;
  /// Returns the gradient with respect to the other maps that the last backward pass computed. It has their shape.
  virtual const CudaTensor& taken_gradient() const = 0;
};
/// Returns a layer that adds maps to `input`, or multiplies it by maps.
std::unique_ptr<CudaJoin> make_cuda_add(cuda::Gpu& gpu, const CudaTensor& input, const std::string& what);
std::unique_ptr<CudaJoin> make_cuda_multiply(cuda::Gpu& gpu, const Multiply& multiply, const CudaTensor& input,
                                             const std::string& what);
/// A batch norm. If shards join their statistics, the functions below replace forward and backward. They do the same
/// as the functions of Shard, except that take_slopes computes only this layer and returns the gradient with respect
/// to its input.
class CudaNorm : public CudaLayer {
 public:
  virtual std::vector<float> moments() = 0;
  virtual void normalise(std::span<const double> joint) = 0;
  virtual std::vector<float> slopes(const CudaTensor& gradient) = 0;
  virtual const CudaTensor& take_slopes(std::span<const double> joint) = 0;
};
std::unique_ptr<CudaNorm> make_cuda_batch_norm(cuda::Gpu& gpu, const BatchNorm& layer, const NormSettings& settings,
                                               const CudaTensor& input, const std::string& what);
/// Returns the backward pass of an activation that the convolution has already applied to `output`.
std::unique_ptr<CudaLayer> make_cuda_fused_activation(cuda::Gpu& gpu, const Activation& activation,
                                                      const CudaTensor& output, const std::string& what);

}  // namespace convoy
