// The three passes of a convolution on a GPU, by either library. All pointers are device memory; maps are NCHW.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/cuda/gpu.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// What all convolutions of a device use in turns: memory, each as much as the neediest asked for, and a library.
class CudaScratch {
 public:
  /// Most bytes of columns or of a workspace; what more would gain is little.
  static std::size_t most(const cuda::Gpu& gpu) { return std::min(std::size_t{256} << 20, gpu.info().memory / 16); }
  /// The columns, or a library's workspace.
  float* columns(cuda::Gpu& gpu, std::size_t count) { return at_least(gpu, columns_, count); }
  float* by_channel(cuda::Gpu& gpu, std::size_t count) { return at_least(gpu, by_channel_, count); }
  /// The library's handle, once a convolution has made it.
  std::shared_ptr<void>& library() { return library_; }

 private:
  struct Part {
    cuda::Memory<float> memory;
    std::size_t count = 0;
  };
  static float* at_least(cuda::Gpu& gpu, Part& part, std::size_t count) {
    if (count > part.count) {
      gpu.finish();
      part = {};
      part = {cuda::Memory<float>(gpu, count, "what convolutions compute with"), count};
    }
    return part.memory.data();
  }

  Part columns_;
  Part by_channel_;
  std::shared_ptr<void> library_;
};

/// Most values of a map or of columns: kernels count in ints.
inline constexpr auto kMostValues = static_cast<std::size_t>(std::numeric_limits<int>::max() / 2);

/// Maps and gradients are those of samples, a micro-batch, but for the filter gradient: there, of the batch.
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

/// Of a stage's convolution.
inline cuda::Window window_of(const Stage& stage) {
  const Convolution& conv = stage.conv;
  const Shape out = conv_shape(stage, 1, 1);
  return {.height = stage.height,
          .width = stage.width,
          .out_height = out.h,
          .out_width = out.w,
          .kernel_h = conv.kernel_h,
          .kernel_w = conv.kernel_w,
          .stride_h = conv.stride_h,
          .stride_w = conv.stride_w,
          .top = conv.pad.top,
          .left = conv.pad.left};
}

/// Products of matrices (cuBLAS) with kernels of our own around them. Any convolution.
std::unique_ptr<CudaConvolution> make_product_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec);

/// In groups, of which the shard may have any filters; without a library.
std::unique_ptr<CudaConvolution> make_grouped_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec);

/// Whether cuDNN is built in.
bool has_cudnn();
/// cuDNN's deterministic algorithms; null for what it cannot compute (padding that differs from side to side, or a pass
/// without such an algorithm that takes little memory).
std::unique_ptr<CudaConvolution> make_cudnn_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec);

}  // namespace convoy
