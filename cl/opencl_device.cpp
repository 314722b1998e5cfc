#include "cl/opencl_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cl/kernels.hpp"
#include "core/random.hpp"

namespace convoy {
namespace {

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }
int blocks(int value, int size) { return (value + size - 1) / size; }

/// What a device's shards share.
struct Shared {
  ClContext context;
  LayerKernels layers;
  int units;  ///< compute units: a processor's cores
  int vector_width = 4;
  std::map<std::tuple<int, int, int, int, int>, ConvolutionKernels> convolutions;  ///< by geometry and tile

  Shared(const ClDeviceId& device, const ClSettings& settings)
      : context(device, settings),
        layers(context),
        units(static_cast<int>(device_info<cl_uint>(device.device, CL_DEVICE_MAX_COMPUTE_UNITS))) {
    if (context.is_processor()) {
      const auto native = device_info<cl_uint>(device.device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
      vector_width = native >= 16 ? 16 : native >= 8 ? 8 : 4;
    }
  }

  /// Kernels for a convolution that yields `filters` maps.
  ConvolutionKernels& convolution(const Convolution& geometry, int filters) {
    const ClTile tile{
        .width = vector_width, .filters = filters_of_tile(filters), .gradient_blocks = context.is_processor() ? 5 : 1};
    const std::tuple key{geometry.kernel_h, geometry.kernel_w, geometry.stride_h, geometry.stride_w, tile.filters};
    const auto known = convolutions.find(key);
    if (known != convolutions.end()) return known->second;
    return convolutions.emplace(key, ConvolutionKernels(context, tile, geometry)).first->second;
  }

  /// Values that a work-item takes of a plain list: a stretch on processors, one elsewhere.
  int chunk() const { return context.is_processor() ? 256 : 1; }
  ClRange chunks(int count) const { return {static_cast<std::size_t>(blocks(count, chunk())), 1, 1}; }

  /// For kernels whose work-items take maps: all of one, or one element.
  ClRange over_maps(const Shape& maps) const {
    const auto count = static_cast<std::size_t>(maps.n) * static_cast<std::size_t>(maps.c);
    if (context.is_processor()) return {1, 1, count};
    return {static_cast<std::size_t>(maps.w), static_cast<std::size_t>(maps.h), count};
  }
};

/// Plain NCHW floats on the device.
class ClTensor : public DeviceTensor {
 public:
  ClTensor(ClContext& context, const Shape& shape, const std::string& what)
      : context_(context), shape_(shape), buffer_(context.allocate(shape.size() * sizeof(float), what)) {}

  Shape shape() const override { return shape_; }
  void write(std::span<const float> values) override {
    invariant(values.size() == shape_.size(), "as many values as the tensor holds");
    context_.write(buffer_, values);
  }
  void read(std::span<float> values) const override {
    invariant(values.size() == shape_.size(), "as many values as the tensor holds");
    context_.read(buffer_, values);
  }
  Tensor to_host() const {
    Tensor tensor(shape_);
    read(tensor.span());
    return tensor;
  }
  const ClBuffer& buffer() const { return buffer_; }
  const ClContext& context() const { return context_; }

 private:
  ClContext& context_;
  Shape shape_;
  ClBuffer buffer_;
};

/// Maps with a border of zeros, as layers.cl says.
class PackedMaps {
 public:
  struct Geometry {
    int rows = 0;
    int pitch = 0;
    int phases = 1;
    int top = 0;
    int left = 0;
    int step_y = 1;
    int step_x = 1;
    bool by_channel = false;  ///< all samples of a channel together
  };

  PackedMaps() = default;
  PackedMaps(Shared& shared, const Shape& maps, const Geometry& geometry, const std::string& what)
      : maps_(maps),
        geometry_(geometry),
        buffer_(shared.context.allocate(static_cast<std::size_t>(maps.n) * maps.c * plane() * sizeof(float), what)) {}

  int row() const { return geometry_.phases * geometry_.pitch; }
  int plane() const { return geometry_.rows * row(); }
  int phase() const { return geometry_.pitch; }
  const ClBuffer& buffer() const { return buffer_; }

  void fill(Shared& shared, const ClBuffer& plain) {
    const Geometry& g = geometry_;
    const auto size = static_cast<cl_ulong>(plane());
    const cl_ulong sample = g.by_channel ? size : size * static_cast<cl_ulong>(maps_.c);
    const cl_ulong channel = g.by_channel ? size * static_cast<cl_ulong>(maps_.n) : size;
    shared.context.launch(shared.layers.pack, shared.over_maps(maps_), plain, buffer_, maps_.c, maps_.h, maps_.w,
                          sample, channel, g.phases, g.pitch, g.top, g.left, g.step_y, g.step_x);
  }

 private:
  Shape maps_;
  Geometry geometry_;
  ClBuffer buffer_;
};

/// A layer after the convolution.
class ClLayer {
 public:
  virtual ~ClLayer() = default;
  virtual void forward(const Pass& pass) = 0;
  virtual const ClTensor& output() const = 0;
  /// From the gradient by output() to the gradient by its input.
  virtual const ClBuffer& backward(const ClBuffer& gradient) = 0;
};

int code_of(Activation activation) {
  switch (activation) {
    case Activation::relu: return 1;
    case Activation::sigmoid: return 2;
    case Activation::tanh: return 3;
  }
  return 0;
}

class ClActivation : public ClLayer {
 public:
  /// `fused`: the input holds the activation's output already.
  ClActivation(Shared& shared, Activation activation, const ClTensor& input, bool fused, const std::string& what)
      : shared_(shared),
        activation_(code_of(activation)),
        input_(input),
        input_gradient_(shared.context, input.shape(), what) {
    if (!fused) own_output_ = std::make_unique<ClTensor>(shared.context, input.shape(), what);
  }

  void forward(const Pass&) override {
    if (own_output_ == nullptr) return;
    const Shape shape = input_.shape();
    shared_.context.launch(shared_.layers.apply_activation, shared_.over_maps(shape), input_.buffer(),
                           own_output_->buffer(), shape.h, shape.w, activation_);
  }
  const ClTensor& output() const override { return own_output_ == nullptr ? input_ : *own_output_; }
  const ClBuffer& backward(const ClBuffer& gradient) override {
    const Shape shape = input_.shape();
    shared_.context.launch(shared_.layers.activation_gradient, shared_.over_maps(shape), output().buffer(), gradient,
                           input_gradient_.buffer(), shape.h, shape.w, activation_);
    return input_gradient_.buffer();
  }

 private:
  Shared& shared_;
  int activation_;
  const ClTensor& input_;
  ClTensor input_gradient_;
  std::unique_ptr<ClTensor> own_output_;
};

class ClPooling : public ClLayer {
 public:
  ClPooling(Shared& shared, const Pooling& pool, const ClTensor& input, bool after_relu, const std::string& what)
      : shared_(shared),
        pool_(pool),
        after_relu_(after_relu ? 1 : 0),
        input_(input),
        output_(shared.context, pooled_shape(pool, input.shape()), what),
        input_gradient_(shared.context, input.shape(), what) {
    if (pool.kind == PoolKind::max) places_ = shared.context.allocate(output_.shape().size() * sizeof(cl_int), what);
  }

  void forward(const Pass&) override {
    const Shape in = input_.shape();
    const Shape out = output_.shape();
    const Pooling& p = pool_;
    if (p.kind == PoolKind::max) {
      shared_.context.launch(shared_.layers.max_pool, shared_.over_maps(out), input_.buffer(), output_.buffer(),
                             places_, in.h, in.w, out.h, out.w, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w,
                             p.pad.top, p.pad.left, after_relu_);
    } else {
      shared_.context.launch(shared_.layers.average_pool, shared_.over_maps(out), input_.buffer(), output_.buffer(),
                             in.h, in.w, out.h, out.w, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad.top,
                             p.pad.left);
    }
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient) override {
    const Shape in = input_.shape();
    const Shape out = output_.shape();
    const Pooling& p = pool_;
    if (p.kind == PoolKind::max) {
      shared_.context.launch(shared_.layers.max_pool_gradient, shared_.over_maps(in), gradient, places_,
                             input_gradient_.buffer(), in.h, in.w, out.h, out.w, p.kernel_h, p.kernel_w, p.stride_h,
                             p.stride_w, p.pad.top, p.pad.left);
    } else {
      shared_.context.launch(shared_.layers.average_pool_gradient, shared_.over_maps(in), gradient,
                             input_gradient_.buffer(), in.h, in.w, out.h, out.w, p.kernel_h, p.kernel_w, p.stride_h,
                             p.stride_w, p.pad.top, p.pad.left);
    }
    return input_gradient_.buffer();
  }

 private:
  Shared& shared_;
  Pooling pool_;
  int after_relu_;
  const ClTensor& input_;
  ClTensor output_;
  ClTensor input_gradient_;
  ClBuffer places_;
};

/// The host draws the mask: the generator's integers are the same everywhere.
class ClDropout : public ClLayer {
 public:
  ClDropout(Shared& shared, const Dropout& dropout, const ClTensor& input, int first_filter, const std::string& what)
      : shared_(shared),
        dropout_(dropout),
        first_filter_(first_filter),
        input_(input),
        factors_(shared.context, input.shape(), what),
        output_(shared.context, input.shape(), what),
        input_gradient_(shared.context, input.shape(), what) {}

  void forward(const Pass& pass) override {
    const Shape shape = input_.shape();
    Tensor factors(shape, 1.0F);
    float* factor = factors.data();
    for (int n = 0; pass.training && n < shape.n; ++n) {
      for (int c = 0; c < shape.c; ++c) {
        for (int i = 0; i < shape.h * shape.w; ++i) {
          *factor++ = dropout_scale(pass.seed, dropout_.stream, dropout_.rate, n, first_filter_ + c, i);
        }
      }
    }
    factors_.write(factors.span());
    multiply(input_.buffer(), output_.buffer());
  }
  const ClTensor& output() const override { return output_; }
  const ClBuffer& backward(const ClBuffer& gradient) override {
    multiply(gradient, input_gradient_.buffer());
    return input_gradient_.buffer();
  }

 private:
  void multiply(const ClBuffer& from, const ClBuffer& to) {
    const Shape shape = input_.shape();
    shared_.context.launch(shared_.layers.multiply, shared_.over_maps(shape), from, factors_.buffer(), to, shape.h,
                           shape.w);
  }

  Shared& shared_;
  Dropout dropout_;
  int first_filter_;
  const ClTensor& input_;
  ClTensor factors_;
  ClTensor output_;
  ClTensor input_gradient_;
};

/// Weights or biases with what SGD needs.
struct ClParameters {
  ClTensor values;
  ClTensor velocity;
  ClTensor gradient;

  ClParameters(ClContext& context, const Shape& shape, const std::string& what)
      : values(context, shape, what), velocity(context, shape, what), gradient(context, shape, what) {}

  void update(Shared& shared, const SgdStep& step) {
    const int count = static_cast<int>(values.shape().size());
    shared.context.launch(shared.layers.update, shared.chunks(count), values.buffer(), velocity.buffer(),
                          gradient.buffer(), count, shared.chunk(), step.learning_rate, step.momentum,
                          step.weight_decay);
  }
};

class ClShard : public Shard {
 public:
  ClShard(Shared& shared, const ShardSpec& spec);

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
  void convolve(ConvolutionKernels& kernels, const PackedMaps& from, const ClBuffer& weights, const ClBuffer& bias,
                int channels, const ClTensor& to, int activation);

  Shared& shared_;
  ShardSpec spec_;
  std::string what_;  ///< "stage conv2: ", for errors
  int filters_;
  int taps_;  ///< of one channel
  ConvolutionKernels& kernels_;
  ConvolutionKernels* backward_kernels_ = nullptr;
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

ClShard::ClShard(Shared& shared, const ShardSpec& spec)
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
    backward_kernels_ = &shared_.convolution(swapped, spec.stage.channels);
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
    if (!after_relu) layers_.push_back(std::make_unique<ClActivation>(shared_, *fused, *maps_, true, what_ + "maps"));
  }
  for (; i < after.size(); ++i) {
    if (const auto* activation = std::get_if<Activation>(&after[i])) {
      layers_.push_back(std::make_unique<ClActivation>(shared_, *activation, last(), false, what_ + "maps"));
    } else if (const auto* pool = std::get_if<Pooling>(&after[i])) {
      layers_.push_back(std::make_unique<ClPooling>(shared_, *pool, last(), after_relu && i == 1, what_ + "maps"));
    } else {
      layers_.push_back(std::make_unique<ClDropout>(shared_, std::get<Dropout>(after[i]), last(), spec_.filters.first,
                                                    what_ + "maps"));
    }
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

void ClShard::convolve(ConvolutionKernels& kernels, const PackedMaps& from, const ClBuffer& weights,
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

class ClDevice : public Device {
 public:
  ClDevice(const ClDeviceId& id, const ClSettings& settings) : shared_(id, settings) {
    info_.name = fmt::format("opencl:{}", id.number);
    info_.description = fmt::format("{} ({}, driver {})", id.name, id.platform_name, id.driver);
    info_.memory = device_info<cl_ulong>(id.device, CL_DEVICE_GLOBAL_MEM_SIZE);
    info_.filter_block = 2;
  }

  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override { return std::make_unique<ClShard>(shared_, spec); }
  void finish() override { shared_.context.finish(); }

 private:
  Shared shared_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_opencl_device(int number, const ClSettings& settings) {
  const std::vector<ClDeviceId> devices = opencl_devices();
  if (number < 0 || static_cast<std::size_t>(number) >= devices.size()) {
    fail("there is no opencl:{}; this machine has opencl:0 to opencl:{}", number, devices.size() - 1);
  }
  const ClDeviceId& id = devices[static_cast<std::size_t>(number)];
  if (!id.unusable.empty()) fail("opencl:{} ({}) cannot be used: {}", number, id.name, id.unusable);
  return std::make_unique<ClDevice>(id, settings);
}

}  // namespace convoy
