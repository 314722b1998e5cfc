#include "cl/convolution.hpp"

namespace convoy {
namespace {

class GroupedConvolution : public ClConvolution {
 public:
  GroupedConvolution(ClShared& shared, const ShardSpec& spec)
      : shared_(shared),
        kernels_(shared.grouped_kernels()),
        stage_(spec.stage),
        first_filter_(spec.filters.first),
        in_(input_shape(spec.stage, spec.batch)),
        out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
        weights_(static_cast<int>(weight_shape(spec.stage, spec.filters.count).size())),
        slices_(shared.context.allocate(sizeof(float) * static_cast<std::size_t>(weights_) * in_.n,
                                        fmt::format("stage {}: gradients", spec.stage.name))) {}

  void forward(const ClBuffer& input, const ClBuffer& weights, const ClBuffer& bias, int activation,
               const ClBuffer& maps, SampleRange samples) override {
    with_geometry([&](const auto&... geometry) {
      shared_.launch_over_maps(kernels_.convolve, out_, samples, input, weights, bias, maps, geometry..., activation);
    });
  }
  void input_gradient(const ClBuffer& gradient, const ClBuffer& weights, const ClBuffer& input_gradient,
                      SampleRange samples) override {
    with_geometry([&](const auto&... geometry) {
      shared_.launch_over_maps(kernels_.input_gradient, in_, samples, gradient, weights, input_gradient, geometry...);
    });
  }
  void filter_gradient(const ClBuffer& input, const ClBuffer& gradient, const ClBuffer& weight_gradient) override {
    with_geometry([&](const auto&... geometry) {
      const ClRange range{static_cast<std::size_t>(weights_), static_cast<std::size_t>(in_.n), 1};
      shared_.context.launch(kernels_.filter_gradient, range, input, gradient, slices_, geometry..., in_.n);
    });
    shared_.context.launch(shared_.layers.sum_slices, shared_.chunks(weights_), slices_, weight_gradient, in_.n,
                           weights_, shared_.chunk());
  }

 private:
  /// Calls call with the geometry in the order of grouped.cl's parameters.
  template <class Call>
  void with_geometry(Call call) const {
    const Convolution& conv = stage_.conv;
    call(in_.c, in_.h, in_.w, out_.c, out_.h, out_.w, first_filter_, conv.filters / conv.groups,
         stage_.channels / conv.groups, conv.kernel_h, conv.kernel_w, conv.stride_h, conv.stride_w, conv.pad.top,
         conv.pad.left, conv.dilation_h, conv.dilation_w);
  }

  ClShared& shared_;
  GroupedKernels kernels_;
  Stage stage_;
  int first_filter_;
  Shape in_;
  Shape out_;
  int weights_;      ///< weights of all filters
  ClBuffer slices_;  ///< each sample's part of the weights' gradient
};

}  // namespace

std::unique_ptr<ClConvolution> make_grouped_convolution(ClShared& shared, const ShardSpec& spec) {
  return std::make_unique<GroupedConvolution>(shared, spec);
}

}  // namespace convoy
