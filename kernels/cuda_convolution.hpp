// The three passes of a convolution on a GPU, by either library. All pointers are device memory; maps are NCHW.
#pragma once

#include <memory>

#include "kernels/cuda_gpu.hpp"
#include "kernels/device.hpp"

namespace convoy {

class CudaConvolution {
 public:
  virtual ~CudaConvolution() = default;
  /// Input to maps, with bias and activation (cuda::activate's number).
  virtual void forward(const float* input, const float* weights, const float* bias, int activation, float* maps) = 0;
  /// From the gradient by the convolution's output, in two halves, the first of which is left out where nobody needs
  /// the gradient by the input.
  virtual void input_gradient(const float* gradient, const float* weights, float* input_gradient) = 0;
  virtual void filter_gradient(const float* input, const float* gradient, float* weight_gradient,
                               float* bias_gradient) = 0;
};

/// Products of matrices (cuBLAS) with kernels of our own around them. Any convolution.
std::unique_ptr<CudaConvolution> make_product_convolution(cuda::Gpu& gpu, const ShardSpec& spec);

/// Whether cuDNN is built in.
bool has_cudnn();
/// cuDNN's deterministic algorithms; null for what it cannot compute (padding that differs from side to side).
std::unique_ptr<CudaConvolution> make_cudnn_convolution(cuda::Gpu& gpu, const ShardSpec& spec);

}  // namespace convoy
