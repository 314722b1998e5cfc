#include <cudnn.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/convolution.hpp"
#include "kernels/cuda/owned.hpp"

namespace convoy {
namespace {

void check(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  // From cuDNN 9 on, codes 5xxx are failures of execution and codes 3xxx unsupported operations.
  const bool lost = code == CUDNN_STATUS_EXECUTION_FAILED || code / 1000 == 5;
  cuda::raise(fmt::format("cuDNN: {}: {}", what, cudnnGetErrorString(code)), lost);
}

bool is_unsupported(cudnnStatus_t code) { return code == CUDNN_STATUS_NOT_SUPPORTED || code / 1000 == 3; }

template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
using Owned = cuda::Owned<T, create, destroy, check>;

using Maps = Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using Filters = Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using Geometry =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

void describe(const Maps& maps, const Shape& shape) {
  check(cudnnSetTensor4dDescriptor(maps, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, shape.n, shape.c, shape.h, shape.w),
        "a tensor's shape");
}

/// Returns the handle that all convolutions of a device share. Its destruction waits for the GPU.
cudnnHandle_t library_of(cuda::Gpu& gpu, CudaScratch& scratch) {
  if (scratch.library() == nullptr) {
    cudnnHandle_t made{};
    check(cudnnCreate(&made), "cudnnCreate");
    std::shared_ptr<void> library(made, [&gpu](void* handle) {
      if (gpu.settle()) cudnnDestroy(static_cast<cudnnHandle_t>(handle));
    });
    check(cudnnSetStream(made, static_cast<cudaStream_t>(gpu.stream())), "cudnnSetStream");
    scratch.library() = std::move(library);
  }
  return static_cast<cudnnHandle_t>(scratch.library().get());
}

/// The algorithm of a pass.
template <class Algorithm>
struct DnnPass {
  Geometry geometry;  ///< includes the algorithm's math type
  Algorithm algorithm{};
};

/// Returns cuDNN's proposals for a pass, fastest first; `ask` is the cuDNN function that makes them.
template <class Proposal, class Ask>
std::vector<Proposal> proposals(int most, Ask ask) {
  std::vector<Proposal> all(static_cast<std::size_t>(most));
  int count = 0;
  const cudnnStatus_t code = ask(most, &count, all.data());
  if (is_unsupported(code)) return {};
  check(code, "the algorithms of a pass");
  all.resize(static_cast<std::size_t>(count));
  return all;
}

class DnnConvolution : public CudaConvolution {
 public:
  DnnConvolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec)
      : gpu_(gpu),
        scratch_(scratch),
        library_(library_of(gpu, scratch)),
        batch_out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
        micro_batches_(spec.micro_batches) {
    const Convolution& conv = spec.stage.conv;
    const int micro_batch = spec.batch / spec.micro_batches;
    describe(input_, input_shape(spec.stage, micro_batch));
    describe(output_, conv_shape(spec.stage, micro_batch, spec.filters.count));
    describe(batch_input_, input_shape(spec.stage, spec.batch));
    describe(batch_output_, batch_out_);
    check(cudnnSetFilter4dDescriptor(filters_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, spec.filters.count,
                                     spec.stage.channels, conv.kernel_h, conv.kernel_w),
          "the filters' shape");
    set_up(forward_.geometry, conv);
    set_up(backward_filters_.geometry, conv);
    set_up(backward_input_.geometry, conv);
  }

  /// Chooses the algorithms of all passes; call it once, before any pass. Returns false where cuDNN has none for one of
  /// them.
  bool choose_algorithms(bool input_gradient) {
    if (!choose_forward() || !choose_backward_filters()) return false;
    if (input_gradient && !choose_backward_input()) return false;
    workspace();
    return true;
  }

  void forward(const float* input, const float* weights, const float* bias, int activation, float* maps) override {
    gpu_.use();
    check(cudnnConvolutionForward(library_, &kOne, input_, input, filters_, weights, forward_.geometry,
                                  forward_.algorithm, workspace(), workspace_bytes_, &kZero, output_, maps),
          "forward");
    gpu_.run(cuda::AddBias{batch_out_.c, batch_out_.h * batch_out_.w, activation, bias, maps},
             static_cast<int>(batch_out_.size()) / micro_batches_);
  }
  void input_gradient(const float* gradient, const float* weights, float* input_gradient) override {
    gpu_.use();
    check(cudnnConvolutionBackwardData(library_, &kOne, filters_, weights, output_, gradient, backward_input_.geometry,
                                       backward_input_.algorithm, workspace(), workspace_bytes_, &kZero, input_,
                                       input_gradient),
          "input gradient");
  }
  void filter_gradient(const float* input, const float* gradient, float* weight_gradient,
                       float* bias_gradient) override {
    gpu_.use();
    check(cudnnConvolutionBackwardFilter(library_, &kOne, batch_input_, input, batch_output_, gradient,
                                         backward_filters_.geometry, backward_filters_.algorithm, workspace(),
                                         workspace_bytes_, &kZero, filters_, weight_gradient),
          "filter gradient");
    gpu_.sum_channels(gradient, batch_out_.n, batch_out_.c, batch_out_.h * batch_out_.w, bias_gradient);
  }

 private:
  static constexpr float kOne = 1.0F;
  static constexpr float kZero = 0.0F;

  float* workspace() { return scratch_.columns(gpu_, workspace_bytes_ / sizeof(float) + 1); }

  void set_up(const Geometry& geometry, const Convolution& conv) const {
    check(cudnnSetConvolution2dDescriptor(geometry, conv.pad.top, conv.pad.left, conv.stride_h, conv.stride_w, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "the convolution");
    set_math(geometry, CUDNN_TENSOR_OP_MATH);
  }
  void set_math(const Geometry& geometry, cudnnMathType_t type) const {
    check(cudnnSetConvolutionMathType(geometry, gpu_.tf32() ? type : CUDNN_FMA_MATH), "the math type");
  }

  /// Takes the first proposal that is deterministic, has the requested precision, and needs a workspace within the
  /// limit; `size` asks for the workspace. Returns false where no proposal qualifies.
  template <class Algorithm, class Proposal, class Size>
  bool choose(DnnPass<Algorithm>& pass, const std::vector<Proposal>& proposed, Size size) {
    for (const Proposal& p : proposed) {
      const bool exact = p.mathType == CUDNN_FMA_MATH || p.mathType == CUDNN_DEFAULT_MATH;
      const bool right = exact || (gpu_.tf32() && p.mathType == CUDNN_TENSOR_OP_MATH);
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC || !right) continue;
      pass.algorithm = p.algo;
      set_math(pass.geometry, p.mathType);
      // The workspace is that of this math type, whichever type the proposal was made for.
      std::size_t bytes = 0;
      const cudnnStatus_t code = size(&bytes);
      if (is_unsupported(code)) continue;
      check(code, "the workspace of a pass");
      if (bytes > CudaScratch::most(gpu_)) continue;
      workspace_bytes_ = std::max(workspace_bytes_, bytes);
      return true;
    }
    return false;
  }

  bool choose_forward() {
    const auto proposed = proposals<cudnnConvolutionFwdAlgoPerf_t>(
        CUDNN_CONVOLUTION_FWD_ALGO_COUNT, [&](int most, int* count, cudnnConvolutionFwdAlgoPerf_t* all) {
          return cudnnGetConvolutionForwardAlgorithm_v7(library_, input_, filters_, forward_.geometry, output_, most,
                                                        count, all);
        });
    return choose(forward_, proposed, [&](std::size_t* bytes) {
      return cudnnGetConvolutionForwardWorkspaceSize(library_, input_, filters_, forward_.geometry, output_,
                                                     forward_.algorithm, bytes);
    });
  }

  bool choose_backward_filters() {
    const auto proposed = proposals<cudnnConvolutionBwdFilterAlgoPerf_t>(
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, [&](int most, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* all) {
          return cudnnGetConvolutionBackwardFilterAlgorithm_v7(library_, batch_input_, batch_output_,
                                                               backward_filters_.geometry, filters_, most, count, all);
        });
    return choose(backward_filters_, proposed, [&](std::size_t* bytes) {
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(library_, batch_input_, batch_output_,
                                                            backward_filters_.geometry, filters_,
                                                            backward_filters_.algorithm, bytes);
    });
  }

  bool choose_backward_input() {
    const auto proposed = proposals<cudnnConvolutionBwdDataAlgoPerf_t>(
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, [&](int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* all) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(library_, filters_, output_, backward_input_.geometry,
                                                             input_, most, count, all);
        });
    return choose(backward_input_, proposed, [&](std::size_t* bytes) {
      return cudnnGetConvolutionBackwardDataWorkspaceSize(library_, filters_, output_, backward_input_.geometry, input_,
                                                          backward_input_.algorithm, bytes);
    });
  }

  cuda::Gpu& gpu_;
  CudaScratch& scratch_;
  cudnnHandle_t library_;
  Maps input_;  ///< one micro-batch
  Maps output_;
  Maps batch_input_;
  Maps batch_output_;
  Filters filters_;
  Shape batch_out_;
  int micro_batches_;
  DnnPass<cudnnConvolutionFwdAlgo_t> forward_;
  DnnPass<cudnnConvolutionBwdDataAlgo_t> backward_input_;
  DnnPass<cudnnConvolutionBwdFilterAlgo_t> backward_filters_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

bool has_cudnn() { return true; }

std::unique_ptr<CudaConvolution> make_cudnn_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec) {
  const Padding& pad = spec.stage.conv.pad;
  if (pad.top != pad.bottom || pad.left != pad.right) return nullptr;
  gpu.use();
  auto convolution = std::make_unique<DnnConvolution>(gpu, scratch, spec);
  if (!convolution->choose_algorithms(spec.input_gradient)) return nullptr;
  return convolution;
}

}  // namespace convoy
