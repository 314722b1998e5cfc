// The three passes of a convolution on a GPU, by cuBLAS, cuDNN or kernels of Convoy's own. All pointers are device
// memory; maps are NCHW.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/cuda/gpu.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// Resources that all convolutions of a device use in turn: buffers, each as large as the largest request, and a
/// library handle.
class CudaScratch {
 public:
  /// The largest number of bytes for columns; larger ones would gain little.
  static std::size_t most(const cuda::Gpu& gpu) { return std::min(std::size_t{256} << 20, most_workspace(gpu)); }
  /// The largest number of bytes for a library's workspace. Convolutions by Fourier transforms take gigabytes.
  static std::size_t most_workspace(const cuda::Gpu& gpu) { return gpu.info().memory / 16; }
  /// Returns the buffer for im2col columns or for a library's workspace.
  float* columns(cuda::Gpu& gpu, std::size_t count) { return at_least(gpu, columns_, count); }
  float* by_channel(cuda::Gpu& gpu, std::size_t count) { return at_least(gpu, by_channel_, count); }
  /// Returns the library's handle; null until a convolution has created it.
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
      part = {cuda::Memory<float>(gpu, count, "the scratch memory of convolutions"), count};
    }
    return part.memory.data();
  }

  Part columns_;
  Part by_channel_;
  std::shared_ptr<void> library_;
};

/// The largest number of values of a map or of columns, because kernels count in ints.
inline constexpr auto kMostValues = static_cast<std::size_t>(std::numeric_limits<int>::max() / 2);

/// Maps and gradients are those of one micro-batch, except in filter_gradient, which takes the whole batch.
class CudaConvolution {
 public:
  virtual ~CudaConvolution() = default;
  /// Computes the maps from the input, with bias and activation (a number of cuda::activate). `bias` is null where the
  /// convolution has none.
  virtual void forward(const float* input, const float* weights, const float* bias, int activation, float* maps) = 0;
  /// The two halves of the backward pass, from the input and the gradient with respect to the convolution's output.
  /// input_gradient is skipped where no stage needs it. `bias_gradient` is null where the convolution has no bias.
  virtual void input_gradient(const float* input, const float* gradient, const float* weights,
                              float* input_gradient) = 0;
  virtual void filter_gradient(const float* input, const float* gradient, float* weight_gradient,
                               float* bias_gradient) = 0;
};

/// Returns the window of a stage's convolution.
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
          .left = conv.pad.left,
          .dilation_h = conv.dilation_h,
          .dilation_w = conv.dilation_w};
}

/// Returns a convolution by matrix products (cuBLAS) and im2col kernels of Convoy's own. It computes any ungrouped
/// convolution.
std::unique_ptr<CudaConvolution> make_product_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec);

/// Returns a grouped convolution by kernels of Convoy's own. The shard may have any of the filters.
std::unique_ptr<CudaConvolution> make_grouped_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec);

/// Returns a stage without weights (StageKind), by kernels of Convoy's own. It takes neither weights nor bias, applies
/// no activation, and has no filter gradient.
std::unique_ptr<CudaConvolution> make_cuda_weightless(cuda::Gpu& gpu, const ShardSpec& spec);

/// Returns whether cuDNN is built in.
bool has_cudnn();
/// Returns a convolution by the fastest of cuDNN's deterministic algorithms and matrix products, pass by pass. They are
/// timed once and remembered on disk, so that equal runs compute alike. Returns null where cuDNN cannot compute it:
/// with asymmetric padding, or where a pass has no such algorithm that takes little memory.
std::unique_ptr<CudaConvolution> make_cudnn_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec);

}  // namespace convoy
