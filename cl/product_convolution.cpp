#include <algorithm>

#include "cl/clblast.hpp"
#include "cl/convolution.hpp"

namespace convoy {
namespace {

constexpr double kMostColumns = 0x1.0p26;  // bytes
/// The most multiply-adds of one product. A product is one launch, and phones reset the GPU on a long launch.
constexpr double kMostWork = 2e9;

class ProductConvolution : public ClConvolution {
 public:
  ProductConvolution(ClShared& shared, const ShardSpec& spec)
      : shared_(shared),
        kernels_(shared.column_kernels()),
        conv_(spec.stage.conv),
        in_(input_shape(spec.stage, spec.batch)),
        out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
        taps_(static_cast<int>(weight_shape(spec.stage, 1).sample_size())),
        places_(out_.h * out_.w) {
    const std::size_t sample = static_cast<std::size_t>(taps_) * places_;
    const double work = static_cast<double>(sample) * out_.c;
    const double columns_bytes = static_cast<double>(sample) * sizeof(float);
    const double fit = std::min(kMostColumns / columns_bytes, kMostWork / work);
    samples_ = static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(out_.n)));
    columns();
    by_channel();
  }

  void forward(const ClBuffer& input, const ClBuffer& weights, const ClBuffer& bias, int activation,
               const ClBuffer& maps, SampleRange micro_batch) override {
    for_each_part(micro_batch, [&](int first, int samples) {
      to_columns(input, first, samples);
      multiply(shared_.context,
               {.m = out_.c, .n = samples * places_, .k = taps_, .transpose_a = false, .transpose_b = false, .beta = 0},
               weights, columns(), by_channel());
      shared_.context.launch(kernels_.from_channels, range(places_, out_.c, samples), by_channel(), bias, maps, first,
                             samples, out_.c, places_, activation);
    });
  }
  void input_gradient(const ClBuffer& gradient, const ClBuffer& weights, const ClBuffer& input_gradient,
                      SampleRange micro_batch) override {
    for_each_part(micro_batch, [&](int first, int samples) {
      to_channels(gradient, first, samples);
      multiply(shared_.context,
               {.m = taps_, .n = samples * places_, .k = out_.c, .transpose_a = true, .transpose_b = false, .beta = 0},
               weights, by_channel(), columns());
      launch_window(kernels_.from_columns, range(in_.h * in_.w, in_.c, samples), columns(), input_gradient, first,
                    samples);
    });
  }
  void filter_gradient(const ClBuffer& input, const ClBuffer& gradient, const ClBuffer& weight_gradient) override {
    for_each_part({0, out_.n}, [&](int first, int samples) {
      to_columns(input, first, samples);
      to_channels(gradient, first, samples);
      multiply(shared_.context,
               {.m = out_.c,
                .n = taps_,
                .k = samples * places_,
                .transpose_a = false,
                .transpose_b = true,
                .beta = first == 0 ? 0.0F : 1.0F},
               by_channel(), columns(), weight_gradient);
    });
  }

 private:
  const ClBuffer& columns() {
    return shared_.column_scratch.at_least(shared_.context, sizeof(float) * samples_ * taps_ * places_);
  }
  const ClBuffer& by_channel() {
    return shared_.channel_scratch.at_least(shared_.context, sizeof(float) * samples_ * out_.c * places_);
  }
  template <class Part>
  void for_each_part(SampleRange all, Part part) {
    const int end = all.first + all.count;
    for (int first = all.first; first < end; first += samples_) part(first, std::min(samples_, end - first));
  }
  /// Returns the range of work-items: all places for each work-item on a processor, one place elsewhere; and the other
  /// two dimensions.
  ClRange range(int places, int second, int third) const {
    return {shared_.context.is_processor() ? 1 : static_cast<std::size_t>(places), static_cast<std::size_t>(second),
            static_cast<std::size_t>(third)};
  }
  void launch_window(const ClKernel& kernel, const ClRange& range, const ClBuffer& from, const ClBuffer& to, int first,
                     int samples) {
    shared_.context.launch(kernel, range, from, to, first, samples, in_.c, in_.h, in_.w, out_.h, out_.w, conv_.kernel_h,
                           conv_.kernel_w, conv_.stride_h, conv_.stride_w, conv_.pad.top, conv_.pad.left,
                           conv_.dilation_h, conv_.dilation_w);
  }
  void to_columns(const ClBuffer& input, int first, int samples) {
    launch_window(kernels_.to_columns, range(places_, samples, taps_), input, columns(), first, samples);
  }
  void to_channels(const ClBuffer& gradient, int first, int samples) {
    shared_.context.launch(kernels_.to_channels, range(places_, samples, out_.c), gradient, by_channel(), first,
                           samples, out_.c, places_);
  }

  ClShared& shared_;
  ColumnKernels kernels_;
  Convolution conv_;
  Shape in_;
  Shape out_;
  int taps_;         ///< weights of a filter
  int places_;       ///< of one output map
  int samples_ = 1;  ///< samples computed together
};

}  // namespace

std::unique_ptr<ClConvolution> make_product_convolution(ClShared& shared, const ShardSpec& spec) {
  return std::make_unique<ProductConvolution>(shared, spec);
}

}  // namespace convoy
