#include <cudnn.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "core/cache_folder.hpp"
#include "core/disk_cache.hpp"
#include "core/stopwatch.hpp"
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

/// A way to compute a pass: one of cuDNN's algorithms, or matrix products.
struct Way {
  static constexpr int kProducts = -1;
  int algorithm = kProducts;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  std::size_t bytes = 0;  ///< of the workspace

  bool by_products() const { return algorithm == kProducts; }
};

constexpr std::size_t kForward = 0;
constexpr std::size_t kInputGradient = 1;
constexpr std::size_t kFilterGradient = 2;

class DnnConvolution : public CudaConvolution {
 public:
  DnnConvolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec)
      : gpu_(gpu),
        scratch_(scratch),
        library_(library_of(gpu, scratch)),
        spec_(spec),
        batch_out_(conv_shape(spec.stage, spec.batch, spec.filters.count)) {
    const Convolution& conv = spec.stage.conv;
    const int micro_batch = spec.batch / spec.micro_batches;
    describe(input_, input_shape(spec.stage, micro_batch));
    describe(output_, conv_shape(spec.stage, micro_batch, spec.filters.count));
    describe(batch_input_, input_shape(spec.stage, spec.batch));
    describe(batch_output_, batch_out_);
    check(cudnnSetFilter4dDescriptor(filters_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, spec.filters.count,
                                     spec.stage.channels, conv.kernel_h, conv.kernel_w),
          "the filters' shape");
    for (const Geometry& geometry : geometries_) {
      check(
          cudnnSetConvolution2dDescriptor(geometry, conv.pad.top, conv.pad.left, conv.stride_h, conv.stride_w,
                                          conv.dilation_h, conv.dilation_w, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "the convolution");
      check(cudnnSetConvolutionMathType(geometry, gpu.tf32() ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH), "the math type");
    }
  }

  /// Chooses how each pass is computed; call it once, before any pass. Returns false where cuDNN has no algorithm for
  /// one of them.
  bool choose_ways() {
    std::array<std::vector<Way>, 3> ways{forward_ways(), {}, filter_gradient_ways()};
    if (spec_.input_gradient) ways[kInputGradient] = input_gradient_ways();
    for (std::size_t pass = 0; pass < ways.size(); ++pass) {
      if (!ways[pass].empty()) {
        take(pass, ways[pass].front());
      } else if (pass != kInputGradient || spec_.input_gradient) {
        return false;
      }
    }
    const DiskCache cache(cache_folder("cuda"));
    const std::string key = key_of();
    const std::optional<std::string> known = cache.recall(key);
    if (!known || !take_known(*known, ways)) {
      if (measure(ways)) take_known(cache.settle(key, text_of_ways()), ways);
    }
    workspace();
    return true;
  }

  void forward(const float* input, const float* weights, const float* bias, int activation, float* maps) override {
    const Way& way = ways_[kForward];
    if (way.by_products()) return products().forward(input, weights, bias, activation, maps);
    gpu_.use();
    check(cudnnConvolutionForward(library_, &kOne, input_, input, filters_, weights, geometries_[kForward],
                                  static_cast<cudnnConvolutionFwdAlgo_t>(way.algorithm), workspace(), way.bytes, &kZero,
                                  output_, maps),
          "forward");
    if (bias == nullptr && activation == 0) return;
    gpu_.run(cuda::AddBias{batch_out_.c, batch_out_.h * batch_out_.w, activation, bias, maps},
             static_cast<int>(batch_out_.size()) / spec_.micro_batches);
  }
  void input_gradient(const float* input, const float* gradient, const float* weights, float* input_gradient) override {
    const Way& way = ways_[kInputGradient];
    if (way.by_products()) return products().input_gradient(input, gradient, weights, input_gradient);
    gpu_.use();
    check(
        cudnnConvolutionBackwardData(library_, &kOne, filters_, weights, output_, gradient, geometries_[kInputGradient],
                                     static_cast<cudnnConvolutionBwdDataAlgo_t>(way.algorithm), workspace(), way.bytes,
                                     &kZero, input_, input_gradient),
        "input gradient");
  }
  void filter_gradient(const float* input, const float* gradient, float* weight_gradient,
                       float* bias_gradient) override {
    const Way& way = ways_[kFilterGradient];
    if (way.by_products()) return products().filter_gradient(input, gradient, weight_gradient, bias_gradient);
    gpu_.use();
    check(cudnnConvolutionBackwardFilter(library_, &kOne, batch_input_, input, batch_output_, gradient,
                                         geometries_[kFilterGradient],
                                         static_cast<cudnnConvolutionBwdFilterAlgo_t>(way.algorithm), workspace(),
                                         way.bytes, &kZero, filters_, weight_gradient),
          "filter gradient");
    if (bias_gradient == nullptr) return;
    gpu_.sum(cuda::Values{gradient}, {batch_out_.n, batch_out_.c, batch_out_.h * batch_out_.w}, bias_gradient);
  }

 private:
  static constexpr float kOne = 1.0F;
  static constexpr float kZero = 0.0F;

  float* workspace() {
    if (lent_workspace_ != nullptr) return lent_workspace_;
    std::size_t bytes = 0;
    for (const Way& way : ways_) bytes = std::max(bytes, way.bytes);
    return scratch_.columns(gpu_, bytes / sizeof(float) + 1);
  }
  CudaConvolution& products() {
    if (products_ == nullptr) products_ = make_product_convolution(gpu_, scratch_, spec_);
    return *products_;
  }

  // ---- the choice of ways

  void take(std::size_t pass, const Way& way) {
    ways_[pass] = way;
    check(cudnnSetConvolutionMathType(geometries_[pass], way.math), "the math type");
  }

  /// Returns the proposals that are deterministic, have the requested precision, and need a workspace within the limit;
  /// `size` asks for the workspace of an algorithm.
  template <class Proposal, class Size>
  std::vector<Way> usable(std::size_t pass, const std::vector<Proposal>& proposed, Size size) {
    std::vector<Way> ways;
    for (const Proposal& p : proposed) {
      const bool exact = p.mathType == CUDNN_FMA_MATH || p.mathType == CUDNN_DEFAULT_MATH;
      const bool right = exact || (gpu_.tf32() && p.mathType == CUDNN_TENSOR_OP_MATH);
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC || !right) continue;
      Way way{.algorithm = static_cast<int>(p.algo), .math = gpu_.tf32() ? p.mathType : CUDNN_FMA_MATH};
      // The workspace is that of this math type, whichever type the proposal was made for.
      take(pass, way);
      const cudnnStatus_t code = size(p.algo, &way.bytes);
      if (is_unsupported(code)) continue;
      check(code, "the workspace of a pass");
      if (way.bytes <= CudaScratch::most_workspace(gpu_)) ways.push_back(way);
    }
    return ways;
  }

  std::vector<Way> forward_ways() {
    const Geometry& geometry = geometries_[kForward];
    const auto proposed = proposals<cudnnConvolutionFwdAlgoPerf_t>(
        CUDNN_CONVOLUTION_FWD_ALGO_COUNT, [&](int most, int* count, cudnnConvolutionFwdAlgoPerf_t* all) {
          return cudnnGetConvolutionForwardAlgorithm_v7(library_, input_, filters_, geometry, output_, most, count,
                                                        all);
        });
    return usable(kForward, proposed, [&](cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
      return cudnnGetConvolutionForwardWorkspaceSize(library_, input_, filters_, geometry, output_, algorithm, bytes);
    });
  }

  std::vector<Way> input_gradient_ways() {
    const Geometry& geometry = geometries_[kInputGradient];
    const auto proposed = proposals<cudnnConvolutionBwdDataAlgoPerf_t>(
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, [&](int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* all) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(library_, filters_, output_, geometry, input_, most, count,
                                                             all);
        });
    return usable(kInputGradient, proposed, [&](cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
      return cudnnGetConvolutionBackwardDataWorkspaceSize(library_, filters_, output_, geometry, input_, algorithm,
                                                          bytes);
    });
  }

  std::vector<Way> filter_gradient_ways() {
    const Geometry& geometry = geometries_[kFilterGradient];
    const auto proposed = proposals<cudnnConvolutionBwdFilterAlgoPerf_t>(
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, [&](int most, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* all) {
          return cudnnGetConvolutionBackwardFilterAlgorithm_v7(library_, batch_input_, batch_output_, geometry,
                                                               filters_, most, count, all);
        });
    return usable(kFilterGradient, proposed, [&](cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(library_, batch_input_, batch_output_, geometry, filters_,
                                                            algorithm, bytes);
    });
  }

  /// Times the ways of each pass, and matrix products, on memory that it allocates, and takes the fastest. Returns
  /// false where memory is short; the first way of each pass then stays chosen.
  bool measure(const std::array<std::vector<Way>, 3>& all) {
    try {
      std::size_t bytes = 0;
      for (const std::vector<Way>& ways : all) {
        for (const Way& way : ways) bytes = std::max(bytes, way.bytes);
      }
      const std::string what = "stage " + spec_.stage.name + ": timing";
      const cuda::Memory<float> input(gpu_, input_shape(spec_.stage, spec_.batch).size(), what);
      const cuda::Memory<float> weights(gpu_, weight_shape(spec_.stage, spec_.filters.count).size(), what);
      const cuda::Memory<float> maps(gpu_, batch_out_.size(), what);
      const cuda::Memory<float> space(gpu_, bytes / sizeof(float) + 1, what);
      lent_workspace_ = space.data();
      choose(kForward, all[kForward], [&] { forward(input.data(), weights.data(), nullptr, 0, maps.data()); });
      choose(kInputGradient, all[kInputGradient],
             [&] { input_gradient(nullptr, maps.data(), weights.data(), input.data()); });
      choose(kFilterGradient, all[kFilterGradient],
             [&] { filter_gradient(input.data(), maps.data(), weights.data(), nullptr); });
      lent_workspace_ = nullptr;
      return true;
    } catch (const DeviceLost&) {
      throw;
    } catch (const Error&) {
      lent_workspace_ = nullptr;
      return false;
    }
  }

  /// Takes the first way, or a later one that is faster by a tenth, so that equal runs mostly choose alike.
  template <class Run>
  void choose(std::size_t pass, std::vector<Way> ways, Run run) {
    if (ways.empty()) return;
    ways.emplace_back();
    Way best = ways.front();
    double shortest = std::numeric_limits<double>::infinity();
    for (const Way& way : ways) {
      take(pass, way);
      const double seconds = seconds_of(run, shortest);
      if (seconds >= 0.9 * shortest) continue;
      best = way;
      shortest = seconds;
    }
    take(pass, best);
  }

  /// Returns the seconds of a pass after a first run, which loads kernels; infinity where the pass is refused. A pass
  /// that takes more than twice the `shortest` time is run no more than twice.
  template <class Run>
  double seconds_of(Run run, double shortest) {
    constexpr int kRuns = 4;
    try {
      run();
      gpu_.finish();
      const Stopwatch once;
      run();
      gpu_.finish();
      if (once.seconds() > 2.0 * shortest) return once.seconds();
      const Stopwatch several;
      for (int i = 0; i < kRuns; ++i) run();
      gpu_.finish();
      return several.seconds() / kRuns;
    } catch (const DeviceLost&) {
      throw;
    } catch (const Error&) {
      return std::numeric_limits<double>::infinity();
    }
  }

  /// Returns everything on which the fastest ways depend.
  std::string key_of() const {
    const Convolution& c = spec_.stage.conv;
    return fmt::format("convolutions of\n{}, {}, cuDNN {}\n{} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
                       gpu_.info().name, gpu_.info().detail, cudnnGetVersion(), spec_.batch, spec_.micro_batches,
                       spec_.stage.channels, spec_.stage.height, spec_.stage.width, spec_.filters.count, c.kernel_h,
                       c.kernel_w, c.stride_h, c.stride_w, c.pad.top, c.pad.left, gpu_.tf32() ? "tf32" : "float",
                       spec_.input_gradient ? "all passes" : "no input gradient") +
           (c.dilated() ? fmt::format("dilated {} {}\n", c.dilation_h, c.dilation_w) : "");
  }

  /// The algorithm and the math type of each pass, as text.
  std::string text_of_ways() const {
    std::string text;
    for (const Way& way : ways_) text += fmt::format("{} {} ", way.algorithm, static_cast<int>(way.math));
    return text;
  }

  /// Takes the ways that a text names. Returns false, and takes none, where one of them cannot be used.
  bool take_known(const std::string& text, const std::array<std::vector<Way>, 3>& all) {
    std::istringstream words(text);
    std::array<Way, 3> known;
    for (std::size_t pass = 0; pass < all.size(); ++pass) {
      int algorithm = 0;
      int math = 0;
      if (!(words >> algorithm >> math)) return false;
      if (algorithm == Way::kProducts) continue;
      const auto way = std::ranges::find_if(all[pass], [&](const Way& each) {
        return each.algorithm == algorithm && static_cast<int>(each.math) == math;
      });
      if (way == all[pass].end()) return false;
      known[pass] = *way;
    }
    for (std::size_t pass = 0; pass < all.size(); ++pass) take(pass, known[pass]);
    return true;
  }

  cuda::Gpu& gpu_;
  CudaScratch& scratch_;
  cudnnHandle_t library_;
  ShardSpec spec_;
  Maps input_;  ///< one micro-batch
  Maps output_;
  Maps batch_input_;
  Maps batch_output_;
  Filters filters_;
  Shape batch_out_;
  std::array<Geometry, 3> geometries_;  ///< of each pass, with its math type
  std::array<Way, 3> ways_;             ///< of each pass
  std::unique_ptr<CudaConvolution> products_;
  float* lent_workspace_ = nullptr;  ///< while ways are timed
};

}  // namespace

bool has_cudnn() { return true; }

std::unique_ptr<CudaConvolution> make_cudnn_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec) {
  const Padding& pad = spec.stage.conv.pad;
  if (pad.top != pad.bottom || pad.left != pad.right) return nullptr;
  gpu.use();
  auto convolution = std::make_unique<DnnConvolution>(gpu, scratch, spec);
  if (!convolution->choose_ways()) return nullptr;
  return convolution;
}

}  // namespace convoy
