#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cl/convolution.hpp"
#include "cl/filter_gradient.hpp"

namespace convoy {
namespace {

ClTile tile_for(const ClShared& shared, const ShardSpec& spec, bool images, bool pools) {
  ClTile tile = shared.tile_for(spec.filters.count, images);
  tile.half = shared.context.settings().half;
  tile.pools = pools;
  return tile;
}

class DirectConvolution : public ClConvolution {
 public:
  DirectConvolution(ClShared& shared, const ShardSpec& spec, bool images, const ClBuffer* places);

  void input_changed() override { packed_samples_ = 0; }
  void weights_changed() override { forward_weights_packed_ = backward_weights_packed_ = false; }
  void forward(const ClBuffer& input, const ClBuffer& weights, const ClBuffer& bias, int activation,
               const ClBuffer& maps, SampleRange samples) override {
    if (!forward_weights_packed_) pack_weights(kernels_, weights, forward_weights_, false);
    forward_weights_packed_ = true;
    pack_input(input, samples);
    convolve(kernels_, forward_images_, input_, forward_weights_, bias, in_.c, out_, maps, activation, samples);
  }
  void input_gradient(const ClBuffer& gradient, const ClBuffer& weights, const ClBuffer& input_gradient,
                      SampleRange samples) override {
    if (!backward_weights_packed_) pack_weights(*backward_kernels_, weights, backward_weights_, true);
    backward_weights_packed_ = true;
    spread_gradient_.fill(shared_, gradient, samples);
    convolve(*backward_kernels_, backward_images_, spread_gradient_, backward_weights_, no_bias_, out_.c, in_,
             input_gradient, 0, samples);
  }
  void filter_gradient(const ClBuffer& input, const ClBuffer& gradient, const ClBuffer& weight_gradient) override {
    if (packed_samples_ < out_.n) pack_input(input, {0, out_.n});
    filter_gradient_.compute(input_, gradient, weight_gradient);
  }

 private:
  /// Maps and weights as images, where `convolve` reads images.
  struct Images {
    ClBuffer maps;
    ClBuffer weights;
  };

  void make_packed(const Convolution& conv, bool input_gradient, const std::string& what);
  void make_images(const std::string& what);
  void pack_input(const ClBuffer& input, SampleRange samples) {
    input_.fill(shared_, input, samples);
    packed_samples_ += samples.count;
  }
  void pack_weights(const ConvolutionKernels& kernels, const ClBuffer& from, const ClBuffer& to, bool swapped);
  void convolve(const ConvolutionKernels& kernels, const Images& images, const PackedMaps& from,
                const ClBuffer& weights, const ClBuffer& bias, int channels, const Shape& out, const ClBuffer& to,
                int activation, SampleRange samples);

  ClShared& shared_;
  Shape in_;
  Shape out_;
  int taps_;                ///< of one channel
  const ClBuffer* places_;  ///< positions of the maxima; null where the forward pass does not pool
  ConvolutionKernels kernels_;
  std::optional<ConvolutionKernels> backward_kernels_;
  ClBuffer forward_weights_;   ///< packed
  ClBuffer backward_weights_;  ///< packed, with filters and channels swapped
  Images forward_images_;
  Images backward_images_;
  bool forward_weights_packed_ = false;
  bool backward_weights_packed_ = false;
  int packed_samples_ = 0;  ///< of the last input
  PackedMaps input_;
  /// Gradient with respect to the convolution's output, spread out for the input gradient.
  PackedMaps spread_gradient_;
  ClBuffer no_bias_;
  ClFilterGradient filter_gradient_;
};

DirectConvolution::DirectConvolution(ClShared& shared, const ShardSpec& spec, bool images, const ClBuffer* places)
    : shared_(shared),
      in_(input_shape(spec.stage, spec.batch)),
      out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
      taps_(spec.stage.conv.kernel_h * spec.stage.conv.kernel_w),
      places_(places),
      kernels_(shared.convolution(spec.stage.conv, tile_for(shared, spec, images, places != nullptr))),
      filter_gradient_(shared, spec) {
  const std::string what = fmt::format("stage {}: ", spec.stage.name);
  const auto packed_bytes = [&](const ConvolutionKernels& kernels, int outer, int inner) {
    return static_cast<std::size_t>(round_up(outer, kernels.tile.filters)) * inner * taps_ *
           stored_bytes(kernels.tile.half);
  };
  ClContext& context = shared_.context;
  forward_weights_ = context.allocate(packed_bytes(kernels_, out_.c, in_.c), what + "packed weights");
  make_packed(spec.stage.conv, spec.input_gradient, what);
  if (spec.input_gradient) {
    Convolution swapped = spec.stage.conv;
    swapped.stride_h = swapped.stride_w = 1;
    backward_kernels_ = shared_.convolution(swapped, shared_.tile_for(in_.c, images));
    backward_weights_ = context.allocate(packed_bytes(*backward_kernels_, in_.c, out_.c), what + "packed weights");
    no_bias_ = context.allocate(static_cast<std::size_t>(in_.c) * sizeof(float), what + "biases");
  }
  if (images) make_images(what);
}

void DirectConvolution::make_images(const std::string& what) {
  const auto show = [&](const PackedMaps& maps, const ClBuffer& weights, bool half) -> Images {
    ClContext& context = shared_.context;
    return {context.image_of(maps.buffer(), half, what + "maps"), context.image_of(weights, half, what + "weights")};
  };
  forward_images_ = show(input_, forward_weights_, kernels_.tile.half);
  if (backward_kernels_) backward_images_ = show(spread_gradient_, backward_weights_, backward_kernels_->tile.half);
}

void DirectConvolution::make_packed(const Convolution& conv, bool input_gradient, const std::string& what) {
  const int vector = shared_.vector_width;
  const int texel = kernels_.tile.images ? 4 : 1;  // rows begin at a texel
  input_ = PackedMaps(shared_, in_,
                      {.rows = std::max((out_.h - 1) * conv.stride_h + conv.kernel_h, conv.pad.top + in_.h),
                       .pitch = round_up(round_up(out_.w, vector) + (conv.kernel_w - 1) / conv.stride_w, texel),
                       .phases = conv.stride_w,
                       .top = conv.pad.top,
                       .left = conv.pad.left,
                       .half = kernels_.tile.half},
                      what + "padded input maps");
  if (!input_gradient) return;
  // With a border, and with zeros between its elements where the stride is above 1, the input gradient is a convolution
  // of stride 1.
  const int top = conv.kernel_h - 1 - conv.pad.top;
  const int left = conv.kernel_w - 1 - conv.pad.left;
  spread_gradient_ = PackedMaps(
      shared_, out_,
      {.rows = std::max(in_.h + conv.kernel_h - 1, top + (out_.h - 1) * conv.stride_h + 1),
       .pitch = round_up(std::max(round_up(in_.w, vector) + conv.kernel_w - 1, left + (out_.w - 1) * conv.stride_w + 1),
                         texel),
       .top = top,
       .left = left,
       .step_y = conv.stride_h,
       .step_x = conv.stride_w},
      what + "padded gradient");
}

void DirectConvolution::pack_weights(const ConvolutionKernels& kernels, const ClBuffer& from, const ClBuffer& to,
                                     bool swapped) {
  const int block = kernels.tile.filters;
  const auto outer = static_cast<std::size_t>(blocks(swapped ? in_.c : out_.c, block));
  const auto inner = static_cast<std::size_t>(swapped ? out_.c : in_.c);
  const ClRange range =
      shared_.context.is_processor() ? ClRange{1, 1, outer} : ClRange{static_cast<std::size_t>(taps_), inner, outer};
  const LayerKernels& layers = shared_.layers;
  shared_.context.launch(kernels.tile.half ? layers.pack_weights_half : layers.pack_weights, range, from, to, out_.c,
                         in_.c, taps_, block, swapped ? 1 : 0);
}

void DirectConvolution::convolve(const ConvolutionKernels& kernels, const Images& images, const PackedMaps& from,
                                 const ClBuffer& weights, const ClBuffer& bias, int channels, const Shape& out,
                                 const ClBuffer& to, int activation, SampleRange samples) {
  const int in_row = blocks(out.w, kernels.tile.width);
  const int pairs = kernels.tile.pools ? in_row * (out.h / 2) : blocks(in_row * out.h, 2);
  const int filter_blocks = blocks(out.c, kernels.tile.filters);
  // The overhead of a work-item on a processor equals some thousand multiplications, so few large work-items are best,
  // but enough for all cores.
  const int items = shared_.context.is_processor()
                        ? std::clamp(blocks(4 * shared_.units, filter_blocks * samples.count), 1, pairs)
                        : pairs;
  const ClRange range{static_cast<std::size_t>(items), static_cast<std::size_t>(filter_blocks),
                      static_cast<std::size_t>(samples.count)};
  const ClBuffer& maps = kernels.tile.images ? images.maps : from.buffer();
  const ClBuffer& factors = kernels.tile.images ? images.weights : weights;
  const auto launch = [&](const auto&... results) {
    shared_.context.launch_from(kernels.convolve, static_cast<std::size_t>(samples.first), range, maps, factors, bias,
                                results..., items, channels, from.plane(), from.row(), from.phase(), out.c, out.h,
                                out.w, activation);
  };
  if (kernels.tile.pools) {
    launch(to, *places_);
  } else {
    launch(to);
  }
}

}  // namespace

std::unique_ptr<ClConvolution> make_direct_convolution(ClShared& shared, const ShardSpec& spec, bool images,
                                                       const ClBuffer* places) {
  return std::make_unique<DirectConvolution>(shared, spec, images, places);
}

}  // namespace convoy
