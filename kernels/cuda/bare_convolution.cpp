#include <cudnn.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "core/stopwatch.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/module.hpp"
#include "kernels/cuda/owned.hpp"

namespace convoy {
namespace {

void check_cudnn(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  cuda::raise(fmt::format("bare cuDNN: {}: {}", what, cudnnGetErrorString(code)), false);
}

template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
using Owned = cuda::Owned<T, create, destroy, check_cudnn>;
using Tensor4d = Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using Filters = Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using Geometry =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

/// What all bare convolutions on a GPU share: the GPU, cuDNN's handle, and a workspace as large as the neediest asks
/// for.
struct Bench {
  Bench(int number, bool tf32) : gpu(number, tf32) {
    gpu.use();
    check_cudnn(cudnnSetStream(library, static_cast<cudaStream_t>(gpu.stream())), "cudnnSetStream");
  }
  void* workspace(std::size_t bytes) {
    if (bytes > workspace_bytes) {
      gpu.finish();
      memory = {};
      memory = cuda::Memory<char>(gpu, bytes, "the workspace of a bare convolution");
      workspace_bytes = bytes;
    }
    return memory.data();
  }

  cuda::Gpu gpu;
  Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy> library;
  cuda::Memory<char> memory;
  std::size_t workspace_bytes = 0;
};

/// The bench of a GPU, which lives as long as a convolution uses it.
std::shared_ptr<Bench> bench_of(int number, bool tf32) {
  static std::map<std::pair<int, bool>, std::weak_ptr<Bench>> benches;
  std::weak_ptr<Bench>& known = benches[{number, tf32}];
  std::shared_ptr<Bench> bench = known.lock();
  if (bench == nullptr) known = bench = std::make_shared<Bench>(number, tf32);
  return bench;
}

/// A pass by any of cuDNN's algorithms for it.
struct Pass {
  int algorithms = 0;
  std::function<cudnnStatus_t(int algorithm, std::size_t* bytes)> workspace_size;
  std::function<cudnnStatus_t(int algorithm, void* workspace, std::size_t bytes)> run;
  int chosen = -1;
  std::size_t bytes = 0;  ///< of the chosen algorithm's workspace
};

constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;

class BareDnn : public BareConvolution {
 public:
  BareDnn(const BareCudnnRequest& request, cudnnTensorFormat_t layout)
      : bench_(bench_of(request.number, request.tf32)) {
    const Shape in = input_shape(request.stage, request.batch);
    const Shape out = conv_shape(request.stage, request.batch, request.filters);
    const Shape weights = weight_shape(request.stage, request.filters);
    describe(input_, layout, in);
    describe(output_, layout, out);
    describe(bias_, layout, {1, request.filters, 1, 1});
    check_cudnn(
        cudnnSetFilter4dDescriptor(filters_, CUDNN_DATA_FLOAT, layout, weights.n, weights.c, weights.h, weights.w),
        "the filters' shape");
    const Convolution& conv = request.stage.conv;
    check_cudnn(
        cudnnSetConvolution2dDescriptor(geometry_, conv.pad.top, conv.pad.left, conv.stride_h, conv.stride_w,
                                        conv.dilation_h, conv.dilation_w, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "the convolution");
    check_cudnn(cudnnSetConvolutionGroupCount(geometry_, conv.groups), "the number of groups");
    check_cudnn(cudnnSetConvolutionMathType(geometry_, request.tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH),
                "the math type");
    for (auto* memory : {&x_, &dx_}) *memory = filled(in.size());
    for (auto* memory : {&y_, &dy_}) *memory = filled(out.size());
    for (auto* memory : {&w_, &dw_}) *memory = filled(weights.size());
    for (auto* memory : {&b_, &db_}) *memory = filled(static_cast<std::size_t>(request.filters));
    passes_ = {forward_pass(), input_gradient_pass(), filter_gradient_pass()};
  }

  /// Times every algorithm of every pass. False where cuDNN has none for one of them in this layout.
  bool choose_algorithms() {
    return std::ranges::all_of(passes_, [&](Pass& pass) { return choose(pass); });
  }

  void forward() override { run(passes_[0]); }
  void input_gradient() override { run(passes_[1]); }
  void filter_gradient() override { run(passes_[2]); }

 private:
  static void describe(const Tensor4d& maps, cudnnTensorFormat_t layout, const Shape& shape) {
    check_cudnn(cudnnSetTensor4dDescriptor(maps, layout, CUDNN_DATA_FLOAT, shape.n, shape.c, shape.h, shape.w),
                "a tensor's shape");
  }

  cuda::Memory<float> filled(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = 0.001F * static_cast<float>(i % 977);
    cuda::Memory<float> memory(bench_->gpu, count, "a bare convolution");
    bench_->gpu.write(memory.data(), values.data(), count);
    return memory;
  }

  Pass forward_pass() {
    const auto algorithm = [](int number) { return static_cast<cudnnConvolutionFwdAlgo_t>(number); };
    return {.algorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
            .workspace_size =
                [this, algorithm](int number, std::size_t* bytes) {
                  return cudnnGetConvolutionForwardWorkspaceSize(bench_->library, input_, filters_, geometry_, output_,
                                                                 algorithm(number), bytes);
                },
            .run =
                [this, algorithm](int number, void* workspace, std::size_t bytes) {
                  const cudnnStatus_t code =
                      cudnnConvolutionForward(bench_->library, &kOne, input_, x_.data(), filters_, w_.data(), geometry_,
                                              algorithm(number), workspace, bytes, &kZero, output_, y_.data());
                  if (code != CUDNN_STATUS_SUCCESS) return code;
                  return cudnnAddTensor(bench_->library, &kOne, bias_, b_.data(), &kOne, output_, y_.data());
                }};
  }

  Pass input_gradient_pass() {
    const auto algorithm = [](int number) { return static_cast<cudnnConvolutionBwdDataAlgo_t>(number); };
    return {.algorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
            .workspace_size =
                [this, algorithm](int number, std::size_t* bytes) {
                  return cudnnGetConvolutionBackwardDataWorkspaceSize(bench_->library, filters_, output_, geometry_,
                                                                      input_, algorithm(number), bytes);
                },
            .run =
                [this, algorithm](int number, void* workspace, std::size_t bytes) {
                  return cudnnConvolutionBackwardData(bench_->library, &kOne, filters_, w_.data(), output_, dy_.data(),
                                                      geometry_, algorithm(number), workspace, bytes, &kZero, input_,
                                                      dx_.data());
                }};
  }

  Pass filter_gradient_pass() {
    const auto algorithm = [](int number) { return static_cast<cudnnConvolutionBwdFilterAlgo_t>(number); };
    return {.algorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
            .workspace_size =
                [this, algorithm](int number, std::size_t* bytes) {
                  return cudnnGetConvolutionBackwardFilterWorkspaceSize(bench_->library, input_, output_, geometry_,
                                                                        filters_, algorithm(number), bytes);
                },
            .run =
                [this, algorithm](int number, void* workspace, std::size_t bytes) {
                  const cudnnStatus_t code = cudnnConvolutionBackwardFilter(
                      bench_->library, &kOne, input_, x_.data(), output_, dy_.data(), geometry_, algorithm(number),
                      workspace, bytes, &kZero, filters_, dw_.data());
                  if (code != CUDNN_STATUS_SUCCESS) return code;
                  return cudnnConvolutionBackwardBias(bench_->library, &kOne, output_, dy_.data(), &kZero, bias_,
                                                      db_.data());
                }};
  }

  /// Takes the algorithm with the shortest of three runs, in at most a quarter of the GPU's memory.
  bool choose(Pass& pass) {
    bench_->gpu.use();
    double shortest = std::numeric_limits<double>::infinity();
    for (int algorithm = 0; algorithm < pass.algorithms; ++algorithm) {
      std::size_t bytes = 0;
      if (pass.workspace_size(algorithm, &bytes) != CUDNN_STATUS_SUCCESS) continue;
      if (bytes > bench_->gpu.info().memory / 4) continue;
      void* workspace = bench_->workspace(bytes);
      if (pass.run(algorithm, workspace, bytes) != CUDNN_STATUS_SUCCESS) continue;
      bench_->gpu.finish();
      for (int repeat = 0; repeat < 3; ++repeat) {
        const Stopwatch watch;
        check_cudnn(pass.run(algorithm, workspace, bytes), "a pass that ran before");
        bench_->gpu.finish();
        const double seconds = watch.seconds();
        if (seconds >= shortest) continue;
        shortest = seconds;
        pass.chosen = algorithm;
        pass.bytes = bytes;
      }
    }
    return pass.chosen >= 0;
  }

  void run(Pass& pass) {
    bench_->gpu.use();
    check_cudnn(pass.run(pass.chosen, bench_->workspace(pass.bytes), pass.bytes), "a pass");
    bench_->gpu.finish();
  }

  std::shared_ptr<Bench> bench_;  // outlives the memory below
  Tensor4d input_;
  Tensor4d output_;
  Tensor4d bias_;
  Filters filters_;
  Geometry geometry_;
  cuda::Memory<float> x_, dx_, y_, dy_, w_, dw_, b_, db_;
  std::array<Pass, 3> passes_;
};

}  // namespace

extern "C" void convoy_cuda_bare(const BareCudnnRequest& request, BareLayouts& layouts) {
  const Convolution& conv = request.stage.conv;
  if (conv.pad.top != conv.pad.bottom || conv.pad.left != conv.pad.right) return;
  if (request.filters % conv.groups != 0) return;
  for (const cudnnTensorFormat_t layout : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
    auto bare = std::make_unique<BareDnn>(request, layout);
    if (bare->choose_algorithms()) layouts.push_back(std::move(bare));
  }
}

}  // namespace convoy
