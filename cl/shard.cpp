#include "cl/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace convoy {
namespace {

/// Weights or biases with what SGD needs.
struct ClParameters {
  ClTensor values;
  ClTensor velocity;
  ClTensor gradient;

  ClParameters(ClContext& context, const Shape& shape, const std::string& what)
      : values(context, shape, what), velocity(context, shape, what), gradient(context, shape, what) {}

  void update(ClShared& shared, const SgdStep& step) {
    const int count = static_cast<int>(values.shape().size());
    shared.context.launch(shared.layers.update, shared.chunks(count), values.buffer(), velocity.buffer(),
                          gradient.buffer(), count, shared.chunk(), step.learning_rate, step.momentum,
                          step.weight_decay);
  }
};

class ClShard : public Shard {
 public:
  ClShard(ClShared& shared, const ShardSpec& spec);

  std::unique_ptr<DeviceTensor> make_input() const override {
    return std::make_unique<ClTensor>(shared_.context, input_shape(spec_.stage, spec_.batch), what_ + "input maps");
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return std::make_unique<ClTensor>(shared_.context, last().shape(), what_ + "gradient by the output");
  }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass) override;
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient) override;
  void backward_filters() override;
  void update(const SgdStep& step) override {
    weights_.update(shared_, step);
    bias_.update(shared_, step);
    weights_changed();
  }
  ShardState state() const override {
    return {.weights = weights_.values.to_host(),
            .bias = bias_.values.to_host(),
            .weight_velocity = weights_.velocity.to_host(),
            .bias_velocity = bias_.velocity.to_host()};
  }
  void set_state(const ShardState& state) override;
  void gradients(Tensor& weights, Tensor& bias) const override {
    weights = weights_.gradient.to_host();
    bias = bias_.gradient.to_host();
  }

 private:
  enum class Known { nothing, input, gradient };  ///< of the pass under way

  const ClTensor& last() const { return layers_.empty() ? *maps_ : layers_.back()->output(); }
  const ClTensor& own(const DeviceTensor& tensor) const;
  int tap_groups() const {
    return blocks(spec_.stage.channels * taps_, kernels_.tile.gradient_taps * kernels_.tile.gradient_blocks);
  }
  void make_layers();
  void make_packed();
  void weights_changed() { forward_weights_stale_ = backward_weights_stale_ = true; }
  void pack_weights(const ConvolutionKernels& kernels, const ClBuffer& to, bool swapped);
  void convolve(const ConvolutionKernels& kernels, const PackedMaps& from, const ClBuffer& weights,
                const ClBuffer& bias, int channels, const ClTensor& to, int activation);

  ClShared& shared_;
  ShardSpec spec_;
  std::string what_;  ///< "stage conv2: ", for errors
  int filters_;
  int taps_;  ///< of one channel
  ConvolutionKernels kernels_;
  std::optional<ConvolutionKernels> backward_kernels_;
  ClParameters weights_;
  ClParameters bias_;
  ClBuffer forward_weights_;   ///< packed
  ClBuffer backward_weights_;  ///< packed, swapped
  bool forward_weights_stale_ = true;
  bool backward_weights_stale_ = true;
  int activation_ = 0;              ///< fused with the convolution
  std::unique_ptr<ClTensor> maps_;  ///< after convolution and fused activation
  std::vector<std::unique_ptr<ClLayer>> layers_;
  PackedMaps input_;
  PackedMaps gradient_;         ///< by the convolution's output, for the filter gradient
  PackedMaps spread_gradient_;  ///< the same for the input gradient
  std::unique_ptr<ClTensor> input_gradient_;
  ClBuffer no_bias_;
  int slices_ = 1;  ///< of the batch, for the filter gradient
  ClBuffer weight_slices_;
  ClBuffer bias_slices_;
  Known known_ = Known::nothing;
};

ClShard::ClShard(ClShared& shared, const ShardSpec& spec)
    : shared_(shared),
      spec_(spec),
      what_(fmt::format("stage {}: ", spec.stage.name)),
      filters_(spec.filters.count),
      taps_(spec.stage.conv.kernel_h * spec.stage.conv.kernel_w),
      kernels_(shared.convolution(spec.stage.conv, spec.filters.count)),
      weights_(shared.context, weight_shape(spec.stage, spec.filters.count), what_ + "weights"),
      bias_(shared.context, {spec.filters.count, 1}, what_ + "biases") {
  const auto packed_bytes = [&](const ConvolutionKernels& kernels, int outer, int inner) {
    return static_cast<std::size_t>(round_up(outer, kernels.tile.filters)) * inner * taps_ * sizeof(float);
  };
  ClContext& context = shared_.context;
  forward_weights_ = context.allocate(packed_bytes(kernels_, filters_, spec.stage.channels), what_ + "packed weights");
  make_packed();
  make_layers();
  if (spec.input_gradient) {
    Convolution swapped = spec.stage.conv;
    swapped.stride_h = swapped.stride_w = 1;
    backward_kernels_ = shared_.convolution(swapped, spec.stage.channels);
    backward_weights_ =
        context.allocate(packed_bytes(*backward_kernels_, spec.stage.channels, filters_), what_ + "packed weights");
    input_gradient_ =
        std::make_unique<ClTensor>(context, input_shape(spec.stage, spec.batch), what_ + "gradient by the input");
    no_bias_ = context.allocate(static_cast<std::size_t>(spec.stage.channels) * sizeof(float), what_ + "biases");
  }
  // Enough work-items for the device; more slices only where the weights alone are too few.
  const int wanted = shared_.units * (context.is_processor() ? 4 : 256);
  const int items = tap_groups() * blocks(filters_, kernels_.tile.gradient_filters);
  slices_ = std::clamp(blocks(wanted, items), 1, spec.batch);
  if (slices_ > 1) {
    weight_slices_ = context.allocate(slices_ * weights_.values.shape().size() * sizeof(float), what_ + "gradients");
  }
  bias_slices_ = context.allocate(static_cast<std::size_t>(spec.batch) * filters_ * sizeof(float), what_ + "gradients");
  context.finish();
}

void ClShard::make_packed() {
  const Stage& stage = spec_.stage;
  const Convolution& conv = stage.conv;
  const Shape in = input_shape(stage, spec_.batch);
  const Shape out = conv_shape(stage, spec_.batch, filters_);
  const int vector = shared_.vector_width;
  input_ = PackedMaps(shared_, in,
                      {.rows = std::max((out.h - 1) * conv.stride_h + conv.kernel_h, conv.pad.top + in.h),
                       .pitch = round_up(out.w, vector) + (conv.kernel_w - 1) / conv.stride_w,
                       .phases = conv.stride_w,
                       .top = conv.pad.top,
                       .left = conv.pad.left},
                      what_ + "padded input maps");
  gradient_ = PackedMaps(shared_, out, {.rows = out.h, .pitch = round_up(out.w, vector), .by_channel = true},
                         what_ + "gradient");
  if (!spec_.input_gradient) return;
  // With a border, and zeros between its elements where strides skip, the input gradient is a convolution of stride 1.
  const int top = conv.kernel_h - 1 - conv.pad.top;
  const int left = conv.kernel_w - 1 - conv.pad.left;
  spread_gradient_ =
      PackedMaps(shared_, out,
                 {.rows = std::max(in.h + conv.kernel_h - 1, top + (out.h - 1) * conv.stride_h + 1),
                  .pitch = std::max(round_up(in.w, vector) + conv.kernel_w - 1, left + (out.w - 1) * conv.stride_w + 1),
                  .top = top,
                  .left = left,
                  .step_y = conv.stride_h,
                  .step_x = conv.stride_w},
                 what_ + "padded gradient");
}

void ClShard::make_layers() {
  const std::vector<ChannelLayer>& after = spec_.stage.after;
  maps_ = std::make_unique<ClTensor>(shared_.context, conv_shape(spec_.stage, spec_.batch, filters_), what_ + "maps");
  const auto* fused = after.empty() ? nullptr : std::get_if<Activation>(&after.front());
  std::size_t i = 0;
  bool after_relu = false;
  if (fused != nullptr) {
    i = 1;
    activation_ = code_of(*fused);
    const auto* pool = after.size() > 1 ? std::get_if<Pooling>(&after[1]) : nullptr;
    after_relu = *fused == Activation::relu && pool != nullptr && pool->kind == PoolKind::max;
    if (!after_relu) layers_.push_back(make_cl_fused_activation(shared_, *fused, *maps_, what_ + "maps"));
  }
  for (; i < after.size(); ++i) {
    layers_.push_back(
        make_cl_layer(shared_, after[i], last(), spec_.filters.first, after_relu && i == 1, what_ + "maps"));
  }
}

const ClTensor& ClShard::own(const DeviceTensor& tensor) const {
  const auto* ours = dynamic_cast<const ClTensor*>(&tensor);
  invariant(ours != nullptr && &ours->context() == &shared_.context, "a tensor of the same device");
  return *ours;
}

void ClShard::pack_weights(const ConvolutionKernels& kernels, const ClBuffer& to, bool swapped) {
  const int block = kernels.tile.filters;
  const int channels = spec_.stage.channels;
  const auto outer = static_cast<std::size_t>(blocks(swapped ? channels : filters_, block));
  const auto inner = static_cast<std::size_t>(swapped ? filters_ : channels);
  const ClRange range =
      shared_.context.is_processor() ? ClRange{1, 1, outer} : ClRange{static_cast<std::size_t>(taps_), inner, outer};
  shared_.context.launch(shared_.layers.pack_weights, range, weights_.values.buffer(), to, filters_, channels, taps_,
                         block, swapped ? 1 : 0);
}

void ClShard::convolve(const ConvolutionKernels& kernels, const PackedMaps& from, const ClBuffer& weights,
                       const ClBuffer& bias, int channels, const ClTensor& to, int activation) {
  const Shape out = to.shape();
  const int pairs = blocks(blocks(out.w, kernels.tile.width) * out.h, 2);
  const int filter_blocks = blocks(out.c, kernels.tile.filters);
  // A work-item costs a processor as much as some thousand multiplications: few large ones, but enough for its cores.
  const int items =
      shared_.context.is_processor() ? std::clamp(blocks(4 * shared_.units, filter_blocks * out.n), 1, pairs) : pairs;
  const ClRange range{static_cast<std::size_t>(items), static_cast<std::size_t>(filter_blocks),
                      static_cast<std::size_t>(out.n)};
  shared_.context.launch(kernels.convolve, range, from.buffer(), weights, bias, to.buffer(), items, channels,
                         from.plane(), from.row(), from.phase(), out.c, out.h, out.w, activation);
}

const DeviceTensor& ClShard::forward(const DeviceTensor& input, const Pass& pass) {
  invariant(input.shape() == input_shape(spec_.stage, spec_.batch), "an input of the shard's shape");
  known_ = Known::nothing;
  if (forward_weights_stale_) pack_weights(kernels_, forward_weights_, false);
  forward_weights_stale_ = false;
  input_.fill(shared_, own(input).buffer());
  convolve(kernels_, input_, forward_weights_, bias_.values.buffer(), spec_.stage.channels, *maps_, activation_);
  for (const auto& layer : layers_) layer->forward(pass);
  if (pass.training) known_ = Known::input;
  return last();
}

const DeviceTensor* ClShard::backward_input(const DeviceTensor& output_gradient) {
  invariant(known_ != Known::nothing, "backward follows a forward in training");
  invariant(output_gradient.shape() == last().shape(), "a gradient of the shard's output shape");
  const ClBuffer* gradient = &own(output_gradient).buffer();
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) gradient = &(*layer)->backward(*gradient);
  gradient_.fill(shared_, *gradient);
  known_ = Known::gradient;
  if (!spec_.input_gradient) return nullptr;
  spread_gradient_.fill(shared_, *gradient);
  if (backward_weights_stale_) pack_weights(*backward_kernels_, backward_weights_, true);
  backward_weights_stale_ = false;
  convolve(*backward_kernels_, spread_gradient_, backward_weights_, no_bias_, filters_, *input_gradient_, 0);
  return input_gradient_.get();
}

void ClShard::backward_filters() {
  invariant(known_ == Known::gradient, "backward_filters follows backward_input");
  const Shape out = maps_->shape();
  const int weights = static_cast<int>(weights_.values.shape().size());
  const ClBuffer& sums = slices_ > 1 ? weight_slices_ : weights_.gradient.buffer();
  const ClRange range{static_cast<std::size_t>(tap_groups()),
                      static_cast<std::size_t>(blocks(filters_, kernels_.tile.gradient_filters)),
                      static_cast<std::size_t>(slices_)};
  constexpr int kCache = 16 << 10;  // half of a small first cache, in bytes
  const int sample = kernels_.tile.gradient_filters * gradient_.plane() * static_cast<int>(sizeof(float));
  const int chunk = std::max(1, kCache / sample);
  ClContext& context = shared_.context;
  context.launch(kernels_.filter_gradient, range, input_.buffer(), gradient_.buffer(), sums, spec_.batch, slices_,
                 chunk, spec_.stage.channels, input_.plane(), input_.row(), input_.phase(), filters_, out.h, out.w,
                 gradient_.plane(), gradient_.row());
  if (slices_ > 1) {
    context.launch(shared_.layers.sum_slices, shared_.chunks(weights), sums, weights_.gradient.buffer(), slices_,
                   weights, shared_.chunk());
  }
  context.launch(kernels_.sum_maps, {static_cast<std::size_t>(out.n) * out.c, 1, 1}, gradient_.buffer(), bias_slices_,
                 spec_.batch, filters_, out.h, out.w, gradient_.plane(), gradient_.row());
  context.launch(shared_.layers.sum_slices, shared_.chunks(filters_), bias_slices_, bias_.gradient.buffer(),
                 spec_.batch, filters_, shared_.chunk());
}

void ClShard::set_state(const ShardState& state) {
  invariant(state.weights.shape() == weights_.values.shape(), "a state of the shard's shape");
  weights_.values.write(state.weights.span());
  bias_.values.write(state.bias.span());
  weights_.velocity.write(state.weight_velocity.span());
  bias_.velocity.write(state.bias_velocity.span());
  weights_changed();
}

}  // namespace

std::unique_ptr<Shard> make_cl_shard(ClShared& shared, const ShardSpec& spec) {
  return std::make_unique<ClShard>(shared, spec);
}

}  // namespace convoy
