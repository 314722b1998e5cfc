// Stages without weights on a GPU: channels that pass, as they are or in another order, and response norm.

#include "kernels/cuda/convolution.hpp"

namespace convoy {
namespace {

/// The numbers of elements in a micro-batch.
struct Counts {
  int input;
  int maps;

  explicit Counts(const ShardSpec& spec) {
    const int samples = spec.batch / spec.micro_batches;
    input = static_cast<int>(input_shape(spec.stage, samples).size());
    maps = static_cast<int>(conv_shape(spec.stage, samples, spec.filters.count).size());
  }
};

class PassingChannels : public CudaConvolution {
 public:
  PassingChannels(cuda::Gpu& gpu, const ShardSpec& spec)
      : gpu_(gpu),
        counts_(spec),
        of_{.channels = spec.stage.channels,
            .groups = spec.stage.kind == StageKind::shuffle ? spec.stage.shuffle : 1,
            .first = spec.filters.first,
            .count = spec.filters.count,
            .places = spec.stage.height * spec.stage.width} {}

  void forward(const float* input, const float*, const float*, int, float* maps) override {
    gpu_.run(cuda::PassChannels{of_, input, maps}, counts_.maps);
  }
  void input_gradient(const float*, const float* gradient, const float*, float* input_gradient) override {
    gpu_.run(cuda::PassChannelsGradient{of_, gradient, input_gradient}, counts_.input);
  }
  void filter_gradient(const float*, const float*, float*, float*) override {}

 private:
  cuda::Gpu& gpu_;
  Counts counts_;
  cuda::PassedChannels of_;
};

class NormalisingResponse : public CudaConvolution {
 public:
  NormalisingResponse(cuda::Gpu& gpu, const ShardSpec& spec)
      : gpu_(gpu),
        counts_(spec),
        of_{.channels = spec.stage.channels,
            .first = spec.filters.first,
            .count = spec.filters.count,
            .places = spec.stage.height * spec.stage.width,
            .size = spec.stage.norm.size,
            .alpha = spec.stage.norm.alpha,
            .beta = spec.stage.norm.beta,
            .k = spec.stage.norm.k} {}

  void forward(const float* input, const float*, const float*, int, float* maps) override {
    gpu_.run(cuda::NormaliseResponse{of_, input, maps}, counts_.maps);
  }
  void input_gradient(const float* input, const float* gradient, const float*, float* input_gradient) override {
    gpu_.run(cuda::NormaliseResponseGradient{of_, input, gradient, input_gradient}, counts_.input);
  }
  void filter_gradient(const float*, const float*, float*, float*) override {}

 private:
  cuda::Gpu& gpu_;
  Counts counts_;
  cuda::NormWindow of_;
};

}  // namespace

std::unique_ptr<CudaConvolution> make_cuda_weightless(cuda::Gpu& gpu, const ShardSpec& spec) {
  if (spec.stage.kind == StageKind::response_norm) return std::make_unique<NormalisingResponse>(gpu, spec);
  return std::make_unique<PassingChannels>(gpu, spec);
}

}  // namespace convoy
