#include "kernels/cuda/convolution.hpp"

namespace convoy {
namespace {

class GroupedConvolution : public CudaConvolution {
 public:
  GroupedConvolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec)
      : gpu_(gpu),
        scratch_(scratch),
        in_(input_shape(spec.stage, spec.batch)),
        out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
        micro_batch_(spec.batch / spec.micro_batches),
        weights_(static_cast<int>(weight_shape(spec.stage, spec.filters.count).size())),
        window_(window_of(spec.stage)) {
    const Convolution& conv = spec.stage.conv;
    groups_ = {.channels = in_.c,
               .filters = out_.c,
               .first_filter = spec.filters.first,
               .group_filters = conv.filters / conv.groups,
               .group_channels = in_.c / conv.groups};
    slices();
  }

  void forward(const float* input, const float* weights, const float* bias, int activation, float* maps) override {
    const int count = micro_batch_ * static_cast<int>(out_.sample_size());
    gpu_.run(cuda::GroupedConvolve{window_, groups_, input, weights, maps}, count);
    if (bias == nullptr && activation == 0) return;
    gpu_.run(cuda::AddBias{out_.c, out_.h * out_.w, activation, bias, maps}, count);
  }
  void input_gradient(const float*, const float* gradient, const float* weights, float* input_gradient) override {
    gpu_.run(cuda::GroupedInputGradient{window_, groups_, gradient, weights, input_gradient},
             micro_batch_ * static_cast<int>(in_.sample_size()));
  }
  void filter_gradient(const float* input, const float* gradient, float* weight_gradient,
                       float* bias_gradient) override {
    gpu_.run(cuda::GroupedFilterSlices{window_, groups_, input, gradient, slices()}, in_.n * weights_);
    gpu_.run(cuda::SumSlices{in_.n, weights_, slices(), weight_gradient}, weights_);
    if (bias_gradient == nullptr) return;
    gpu_.sum(cuda::Values{gradient}, {out_.n, out_.c, out_.h * out_.w}, bias_gradient);
  }

 private:
  /// Returns the buffer for each sample's part of the weights' gradient.
  float* slices() {
    return scratch_.columns(gpu_, static_cast<std::size_t>(in_.n) * static_cast<std::size_t>(weights_));
  }

  cuda::Gpu& gpu_;
  CudaScratch& scratch_;
  Shape in_;
  Shape out_;
  int micro_batch_;  ///< samples of a micro-batch
  int weights_;      ///< weights of all filters
  cuda::Window window_;
  cuda::Groups groups_{};
};

}  // namespace

std::unique_ptr<CudaConvolution> make_grouped_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec) {
  return std::make_unique<GroupedConvolution>(gpu, scratch, spec);
}

}  // namespace convoy
