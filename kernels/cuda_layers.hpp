// The layers after a convolution on a GPU.
#pragma once

#include "kernels/cuda_gpu.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// NCHW floats on a GPU.
class CudaTensor : public DeviceTensor {
 public:
  CudaTensor(cuda::Gpu& gpu, const Shape& shape, const std::string& what)
      : gpu_(gpu), shape_(shape), memory_(gpu, shape.size(), what) {}

  Shape shape() const override { return shape_; }
  void write(std::span<const float> values) override {
    invariant(values.size() == shape_.size(), "as many values as the tensor holds");
    gpu_.write(memory_.data(), values.data(), values.size());
  }
  void read(std::span<float> values) const override {
    invariant(values.size() == shape_.size(), "as many values as the tensor holds");
    gpu_.read(memory_.data(), values.data(), values.size());
  }
  Tensor to_host() const {
    Tensor tensor(shape_);
    read(tensor.span());
    return tensor;
  }
  int size() const { return static_cast<int>(shape_.size()); }
  float* data() const { return memory_.data(); }
  const cuda::Gpu& gpu() const { return gpu_; }

 private:
  cuda::Gpu& gpu_;
  Shape shape_;
  cuda::Memory<float> memory_;
};

/// A layer after the convolution.
class CudaLayer {
 public:
  virtual ~CudaLayer() = default;
  virtual void forward(const Pass& pass) = 0;
  virtual const CudaTensor& output() const = 0;
  /// From the gradient by output() to the gradient by its input.
  virtual const float* backward(const float* gradient) = 0;
};

/// A layer that reads `input`. `first_filter` is the whole stage's number of its first channel; `after_relu`: the input is
/// a ReLU's output, and the layer's backward is to include the ReLU's (for max pooling alone). `what` names the stage.
std::unique_ptr<CudaLayer> make_cuda_layer(cuda::Gpu& gpu, const ChannelLayer& layer, const CudaTensor& input,
                                           int first_filter, bool after_relu, const std::string& what);
/// Backward alone of an activation that the convolution applied to `output`.
std::unique_ptr<CudaLayer> make_cuda_fused_activation(cuda::Gpu& gpu, Activation activation, const CudaTensor& output,
                                                      const std::string& what);

}  // namespace convoy
