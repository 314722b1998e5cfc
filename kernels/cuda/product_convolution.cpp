#include <algorithm>

#include "kernels/cuda/convolution.hpp"

namespace convoy {
namespace {

class ProductConvolution : public CudaConvolution {
 public:
  ProductConvolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec)
      : gpu_(gpu),
        scratch_(scratch),
        window_(window_of(spec.stage)),
        channels_(spec.stage.channels),
        filters_(spec.filters.count),
        batch_(spec.batch),
        micro_batch_(spec.batch / spec.micro_batches),
        taps_(static_cast<int>(weight_shape(spec.stage, 1).sample_size())) {
    places_ = window_.out_height * window_.out_width;
    in_size_ = static_cast<int>(input_shape(spec.stage, 1).sample_size());
    const std::size_t sample = static_cast<std::size_t>(taps_) * static_cast<std::size_t>(places_);
    if (sample > kMostValues) {
      fail(
          "stage {}: the columns of one sample have {} values, and the cuda device computes at most {} at once; "
          "compute "
          "this net on another device",
          spec.stage.name, sample, kMostValues);
    }
    const std::size_t room = CudaScratch::most(gpu) / sizeof(float);
    samples_ = static_cast<int>(std::clamp<std::size_t>(room / sample, 1, static_cast<std::size_t>(batch_)));
    columns();
    by_channel();
  }

  void forward(const float* input, const float* weights, const float* bias, int activation, float* maps) override {
    for_each_part(micro_batch_, [&](int first, int samples) {
      to_columns(input, first, samples);
      gpu_.multiply({.m = filters_,
                     .n = samples * places_,
                     .k = taps_,
                     .transpose_a = false,
                     .transpose_b = false,
                     .a = weights,
                     .b = columns(),
                     .c = by_channel(),
                     .beta = 0.0F});
      gpu_.run(cuda::FromChannels{filters_, samples, places_, activation, by_channel(), bias,
                                  maps + at(first, filters_ * places_)},
               samples * filters_ * places_);
    });
  }

  void input_gradient(const float*, const float* gradient, const float* weights, float* input_gradient) override {
    for_each_part(micro_batch_, [&](int first, int samples) {
      to_channels(gradient, first, samples);
      gpu_.multiply({.m = taps_,
                     .n = samples * places_,
                     .k = filters_,
                     .transpose_a = true,
                     .transpose_b = false,
                     .a = weights,
                     .b = by_channel(),
                     .c = columns(),
                     .beta = 0.0F});
      gpu_.run(cuda::FromColumns{window_, channels_, samples, columns(), input_gradient + at(first, in_size_)},
               samples * in_size_);
    });
  }

  void filter_gradient(const float* input, const float* gradient, float* weight_gradient,
                       float* bias_gradient) override {
    for_each_part(batch_, [&](int first, int samples) {
      to_columns(input, first, samples);
      to_channels(gradient, first, samples);
      gpu_.multiply({.m = filters_,
                     .n = taps_,
                     .k = samples * places_,
                     .transpose_a = false,
                     .transpose_b = true,
                     .a = by_channel(),
                     .b = columns(),
                     .c = weight_gradient,
                     .beta = first == 0 ? 0.0F : 1.0F});
    });
    if (bias_gradient == nullptr) return;
    gpu_.sum(cuda::Values{gradient}, {batch_, filters_, places_}, bias_gradient);
  }

 private:
  float* columns() { return scratch_.columns(gpu_, at(samples_, taps_ * places_)); }
  float* by_channel() { return scratch_.by_channel(gpu_, at(samples_, filters_ * places_)); }
  static std::size_t at(int sample, int size) {
    return static_cast<std::size_t>(sample) * static_cast<std::size_t>(size);
  }
  template <class Part>
  void for_each_part(int samples, Part part) {
    for (int first = 0; first < samples; first += samples_) part(first, std::min(samples_, samples - first));
  }
  void to_columns(const float* input, int first, int samples) {
    gpu_.run(cuda::ToColumns{window_, channels_, samples, input + at(first, in_size_), columns()},
             taps_ * samples * places_);
  }
  void to_channels(const float* gradient, int first, int samples) {
    gpu_.run(cuda::ToChannels{filters_, samples, places_, gradient + at(first, filters_ * places_), by_channel()},
             samples * filters_ * places_);
  }

  cuda::Gpu& gpu_;
  CudaScratch& scratch_;
  cuda::Window window_;
  int channels_;
  int filters_;
  int batch_;
  int micro_batch_;  ///< samples of a micro-batch
  int taps_;         ///< weights of a filter
  int places_ = 0;   ///< of one output map
  int in_size_ = 0;  ///< elements of one sample of the input
  int samples_ = 1;  ///< samples computed together
};

}  // namespace

std::unique_ptr<CudaConvolution> make_product_convolution(cuda::Gpu& gpu, CudaScratch& scratch, const ShardSpec& spec) {
  return std::make_unique<ProductConvolution>(gpu, scratch, spec);
}

}  // namespace convoy
