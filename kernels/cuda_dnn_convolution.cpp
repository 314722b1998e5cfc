#include <cudnn.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cuda_convolution.hpp"

namespace convoy {
namespace {

void check(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  cuda::raise(fmt::format("cuDNN: {}: {}", what, cudnnGetErrorString(code)), code == CUDNN_STATUS_EXECUTION_FAILED);
}

/// A handle of cuDNN's, and how it is made and destroyed.
template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
class Owned {
 public:
  Owned() { check(create(&handle_), "making a handle"); }
  ~Owned() { destroy(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator T() const { return handle_; }  // NOLINT(google-explicit-constructor): it stands for the handle

 private:
  T handle_{};
};

using Library = Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
using Maps = Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using Filters = Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using Geometry =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

void describe(const Maps& maps, const Shape& shape) {
  check(cudnnSetTensor4dDescriptor(maps, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, shape.n, shape.c, shape.h, shape.w),
        "a tensor's shape");
}

/// Of the algorithms that cuDNN proposes, fastest first, the first that gives the same bits every time and the numbers
/// that were asked for.
template <class Algorithm>
const Algorithm& choose(const std::vector<Algorithm>& proposed, bool tf32, const char* pass) {
  const auto fits = [&](const Algorithm& a) {
    const bool exact = a.mathType == CUDNN_FMA_MATH || a.mathType == CUDNN_DEFAULT_MATH;
    return a.status == CUDNN_STATUS_SUCCESS && a.determinism == CUDNN_DETERMINISTIC && (tf32 || exact);
  };
  const auto found = std::ranges::find_if(proposed, fits);
  if (found == proposed.end()) fail("cuDNN has no deterministic algorithm for the {}; use the device cublas", pass);
  return *found;
}

class DnnConvolution : public CudaConvolution {
 public:
  DnnConvolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec)
      : gpu_(gpu),
        scratch_(scratch),
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
    check(cudnnSetConvolution2dDescriptor(geometry_, conv.pad.top, conv.pad.left, conv.stride_h, conv.stride_w, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "the convolution");
    check(cudnnSetConvolutionMathType(geometry_, gpu.tf32() ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH), "the math type");
    check(cudnnSetStream(library_, static_cast<cudaStream_t>(gpu.stream())), "cudnnSetStream");
    choose_algorithms(spec.input_gradient);
    workspace();
  }

  void forward(const float* input, const float* weights, const float* bias, int activation, float* maps) override {
    gpu_.use();
    check(cudnnConvolutionForward(library_, &kOne, input_, input, filters_, weights, geometry_, forward_, workspace(),
                                  workspace_bytes_, &kZero, output_, maps),
          "forward");
    gpu_.run(cuda::AddBias{batch_out_.c, batch_out_.h * batch_out_.w, activation, bias, maps},
             static_cast<int>(batch_out_.size()) / micro_batches_);
  }
  void input_gradient(const float* gradient, const float* weights, float* input_gradient) override {
    gpu_.use();
    check(cudnnConvolutionBackwardData(library_, &kOne, filters_, weights, output_, gradient, geometry_,
                                       backward_input_, workspace(), workspace_bytes_, &kZero, input_, input_gradient),
          "input gradient");
  }
  void filter_gradient(const float* input, const float* gradient, float* weight_gradient,
                       float* bias_gradient) override {
    gpu_.use();
    check(cudnnConvolutionBackwardFilter(library_, &kOne, batch_input_, input, batch_output_, gradient, geometry_,
                                         backward_filters_, workspace(), workspace_bytes_, &kZero, filters_,
                                         weight_gradient),
          "filter gradient");
    gpu_.sum_channels(gradient, batch_out_.n, batch_out_.c, batch_out_.h * batch_out_.w, bias_gradient);
  }

 private:
  static constexpr float kOne = 1.0F;
  static constexpr float kZero = 0.0F;

  float* workspace() { return scratch_.columns(gpu_, workspace_bytes_ / sizeof(float) + 1); }

  void choose_algorithms(bool input_gradient) {
    int count = 0;
    const auto needs = [&](std::size_t bytes) { workspace_bytes_ = std::max(workspace_bytes_, bytes); };
    std::vector<cudnnConvolutionFwdAlgoPerf_t> forward(CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
    check(cudnnGetConvolutionForwardAlgorithm_v7(library_, input_, filters_, geometry_, output_,
                                                 CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, forward.data()),
          "algorithms of the forward pass");
    forward.resize(static_cast<std::size_t>(count));
    const auto& f = choose(forward, gpu_.tf32(), "forward pass");
    forward_ = f.algo;
    needs(f.memory);
    std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> filters(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
    check(
        cudnnGetConvolutionBackwardFilterAlgorithm_v7(library_, batch_input_, batch_output_, geometry_, filters_,
                                                      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, &count, filters.data()),
        "algorithms of the filter gradient");
    filters.resize(static_cast<std::size_t>(count));
    const auto& w = choose(filters, gpu_.tf32(), "filter gradient");
    backward_filters_ = w.algo;
    needs(w.memory);
    if (!input_gradient) return;
    std::vector<cudnnConvolutionBwdDataAlgoPerf_t> data(CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
    check(cudnnGetConvolutionBackwardDataAlgorithm_v7(library_, filters_, output_, geometry_, input_,
                                                      CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, &count, data.data()),
          "algorithms of the input gradient");
    data.resize(static_cast<std::size_t>(count));
    const auto& d = choose(data, gpu_.tf32(), "input gradient");
    backward_input_ = d.algo;
    needs(d.memory);
  }

  cuda::Gpu& gpu_;
  CudaScratch& scratch_;
  Library library_;
  Maps input_;  ///< of a micro-batch
  Maps output_;
  Maps batch_input_;
  Maps batch_output_;
  Filters filters_;
  Geometry geometry_;
  Shape batch_out_;
  int micro_batches_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdDataAlgo_t backward_input_{};
  cudnnConvolutionBwdFilterAlgo_t backward_filters_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

bool has_cudnn() { return true; }

std::unique_ptr<CudaConvolution> make_cudnn_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec) {
  const Padding& pad = spec.stage.conv.pad;
  if (pad.top != pad.bottom || pad.left != pad.right) return nullptr;
  gpu.use();
  return std::make_unique<DnnConvolution>(gpu, scratch, spec);
}

}  // namespace convoy
