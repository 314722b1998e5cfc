#include "cl/shard.hpp"

#include <fmt/format.h>

#include "cl/choice.hpp"
#include "kernels/host/activation.hpp"

namespace convoy {
namespace {

/// The pooling that direct convolutions include.
constexpr Pooling kFusedPooling{
    .kind = PoolKind::max, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .pad = {}};

class ClShard : public Shard {
 public:
  ClShard(ClShared& shared, const ShardSpec& spec);

  std::unique_ptr<DeviceTensor> make_input() const override {
    return std::make_unique<ClTensor>(shared_, input_shape(spec_.stage, spec_.batch), what_ + "input maps");
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return std::make_unique<ClTensor>(shared_, last().shape(), what_ + "output gradient");
  }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    return std::make_unique<ClTensor>(shared_, added_.at(index)->taken_gradient().shape(), what_ + "maps taken in");
  }
  void connect(std::size_t index, const DeviceTensor& maps) override { added_.at(index)->connect(own(maps)); }
  const DeviceTensor& added_gradient(std::size_t index) const override { return added_.at(index)->taken_gradient(); }
  const ShardSpec& spec() const override { return spec_; }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override;
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override;
  std::vector<float> moments() override {
    invariant(next_ < layers_.size() && joins(next_), "moments follows the last forward, or normalise");
    return norms_[next_]->moments();
  }
  const DeviceTensor& normalise(std::span<const double> joint) override {
    norms_[next_++]->normalise(joint);
    run({0, spec_.batch});
    return last();
  }
  std::vector<float> slopes(const DeviceTensor& output_gradient) override {
    invariant(output_gradient.shape() == last().shape(), "the gradient has the shape of the shard's output");
    if (next_ == layers_.size()) gradient_ = &own(output_gradient).buffer();
    run_back({0, spec_.batch});
    invariant(next_ > 0, "slopes follows the last normalise, or take_slopes of the norm behind");
    return norms_[next_ - 1]->slopes(*gradient_);
  }
  void take_slopes(std::span<const double> joint) override {
    gradient_ = &norms_[--next_]->take_slopes(joint);
    run_back({0, spec_.batch});
  }
  void backward_filters() override;
  void update(const UpdateStep& step) override {
    for (const ClParameter* each : parameters()) each->update(shared_, step, broken_);
    shared_.context.read_later(broken_, broken_on_host_);
    weights_changed();
  }
  bool finite() const override { return *broken_on_host_ == 0.0F; }
  ShardState state() const override {
    ShardState state;
    for (const ClParameter* each : parameters()) state.parameters.push_back(each->to_host());
    return state;
  }
  void set_state(const ShardState& state) override;
  std::vector<Tensor> gradients() const override {
    std::vector<Tensor> all;
    for (const ClParameter* each : parameters()) {
      all.push_back(each->gradient != nullptr ? each->gradient->to_host() : Tensor());
    }
    return all;
  }
  void set_gradients(const std::vector<Tensor>& gradients) override {
    const std::vector<ClParameter*> all = parameters();
    invariant(gradients.size() == all.size(), "each parameter has a gradient");
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->gradient != nullptr) all[i]->gradient->write(gradients[i].span());
    }
  }

 private:
  const ClTensor& last() const { return layers_.empty() ? *maps_ : layers_.back()->output(); }
  const ClTensor& own(const DeviceTensor& tensor) const { return own_tensor(shared_, tensor); }
  bool has_weights() const { return spec_.stage.kind == StageKind::convolution; }
  /// Whether the kernels of grouped.cl compute the convolution, if matrix products do not.
  bool by_grouped() const { return spec_.stage.conv.groups > 1 || spec_.stage.conv.dilated(); }
  /// Returns whether a layer is a batch norm at which the current pass stops, because shards join its statistics.
  bool joins(std::size_t layer) const { return norms_[layer] != nullptr && spec_.joins_statistics() && pass_.training; }
  /// Runs the layers from next_ on, to the next batch norm whose statistics are joined.
  void run(SampleRange samples) {
    for (; next_ < layers_.size() && !joins(next_); ++next_) layers_[next_]->forward(pass_, samples);
  }
  /// Runs the layers before next_ backward, to the next batch norm whose statistics are joined.
  void run_back(SampleRange samples) {
    for (; next_ > 0 && !joins(next_ - 1); --next_) gradient_ = &layers_[next_ - 1]->backward(*gradient_, samples);
  }
  void make_layers();
  void make_convolutions();
  void weights_changed() {
    for (const auto& convolution : {direct_.get(), products_.get()}) {
      if (convolution != nullptr) convolution->weights_changed();
    }
  }
  ClConvolution& by(bool products) const { return products ? *products_ : *direct_; }
  /// Returns the parameters in the order of parameters_of().
  std::vector<ClParameter*> parameters() const;

  ClShared& shared_;
  ShardSpec spec_;
  std::string what_;             ///< "stage conv2: ", for errors
  mutable ClParameter weights_;  ///< one number that is no parameter where the stage has no weights
  mutable ClParameter bias_;     ///< zeros, which no update changes, where the convolution has no bias
  ClChoice choice_;
  std::unique_ptr<ClConvolution> direct_;    ///< null where no pass is direct
  std::unique_ptr<ClConvolution> products_;  ///< null where no pass uses matrix products
  ClKernel sum_maps_;                        ///< timed apart, because a work-item sums a map of this shard
  int activation_ = 0;                       ///< of the activation fused with the convolution
  std::unique_ptr<ClTensor> maps_;           ///< after convolution, fused activation and fused pooling
  ClBuffer places_;                          ///< positions of the maxima, where pooling is fused
  std::vector<std::unique_ptr<ClLayer>> layers_;
  std::vector<ClJoin*> added_;  ///< the layers among them that take in other maps
  std::vector<ClNorm*> norms_;  ///< by layer; null for other layers and frozen norms
  Pass pass_;                   ///< of the last forward
  std::size_t next_ = 0;        ///< the layer that runs next; in the backward pass the layer before it runs next
  std::unique_ptr<ClTensor> input_gradient_;
  ClBuffer bias_slices_;             ///< sums over each map
  ClBuffer broken_;                  ///< one number: not 0 after an update that left values that are not finite
  float* broken_on_host_;            ///< the number in `broken_`, as the last update that the device finished left it
  const ClBuffer* input_ = nullptr;  ///< input of the last forward in training
  const ClBuffer* gradient_ = nullptr;  ///< gradient with respect to the convolution's output, of the last backward
};

ClShard::ClShard(ClShared& shared, const ShardSpec& spec)
    : shared_(shared),
      spec_(spec),
      what_(fmt::format("stage {}: ", spec.stage.name)),
      weights_(shared, has_weights() ? weight_shape(spec.stage, spec.filters.count) : Shape{1, 1},
               has_weights() ? spec.stage.conv.rate : 0.0F, spec.stage.moments, what_ + "weights"),
      bias_(shared, {spec.filters.count, 1}, spec.stage.conv.bias ? spec.stage.conv.rate : 0.0F, spec.stage.moments,
            what_ + "biases"),
      choice_(has_weights() && spec.stage.conv.groups == 1 ? choose_convolutions(shared, spec) : ClChoice{}),
      sum_maps_(shared.layers.sum_maps.timed_apart()),
      broken_(shared.context.allocate(sizeof(float), what_ + "a number")),
      broken_on_host_(shared.context.place_for_later()) {
  ClContext& context = shared_.context;
  make_layers();
  make_convolutions();
  if (spec.input_gradient) {
    input_gradient_ =
        std::make_unique<ClTensor>(shared_, input_shape(spec.stage, spec.batch), what_ + "input gradient");
  }
  if (has_weights()) {
    const auto maps = static_cast<std::size_t>(spec.batch) * static_cast<std::size_t>(spec.filters.count);
    bias_slices_ = context.allocate(maps * sizeof(float), what_ + "gradients");
  }
  set_state(zero_state(spec.stage, spec.filters.count));
  context.finish();
}

void ClShard::make_convolutions() {
  if (!has_weights()) {
    direct_ = make_cl_weightless(shared_, spec_);
    return;
  }
  const bool all = choice_.forward && choice_.filter_gradient && (choice_.input_gradient || !spec_.input_gradient);
  if (!all && by_grouped()) {
    direct_ = make_grouped_convolution(shared_, spec_);
  } else if (!all) {
    direct_ = make_direct_convolution(shared_, spec_, choice_.images, places_ ? &places_ : nullptr);
  }
  if (choice_.any()) products_ = make_product_convolution(shared_, spec_);
}

void ClShard::make_layers() {
  const std::vector<ChannelLayer>& after = spec_.stage.after;
  const Shape convolved = conv_shape(spec_.stage, spec_.batch, spec_.filters.count);
  std::size_t next = 0;
  const auto* fused = after.empty() || !has_weights() ? nullptr : std::get_if<Activation>(&after.front());
  if (fused != nullptr && !joins_convolutions_on_gpus(*fused)) fused = nullptr;
  if (fused != nullptr) {
    activation_ = code_of(*fused);
    next = 1;
  }
  const auto* pool = next < after.size() ? std::get_if<Pooling>(&after[next]) : nullptr;
  const bool relu = fused != nullptr && *fused == Activation::relu;
  const bool max_after_relu = relu && pool != nullptr && pool->kind == PoolKind::max;
  // The gradient needs only pooled maps and places, so the maps themselves are not kept.
  const bool fits = (fused == nullptr || relu) && pool != nullptr && *pool == kFusedPooling;
  if (fits && !choice_.forward && !by_grouped() && has_weights()) {
    maps_ = std::make_unique<ClTensor>(shared_, pooled_shape(*pool, convolved), what_ + "maps");
    places_ = shared_.context.allocate(maps_->shape().size() * sizeof(cl_int), what_ + "maps");
    layers_.push_back(make_cl_fused_pooling(shared_, convolved, *maps_, places_, what_ + "maps"));
    ++next;
  } else {
    maps_ = std::make_unique<ClTensor>(shared_, convolved, what_ + "maps");
    if (fused != nullptr && !max_after_relu) {
      layers_.push_back(make_cl_fused_activation(shared_, *fused, *maps_, what_ + "maps"));
    }
  }
  for (std::size_t i = next; i < after.size(); ++i) {
    if (const auto* norm = std::get_if<BatchNorm>(&after[i])) {
      auto layer =
          make_cl_batch_norm(shared_, *norm, {.moments = spec_.stage.moments, .whole_batch = whole_batch(spec_)},
                             last(), what_ + "batch norm");
      norms_.resize(layers_.size());
      norms_.push_back(norm->frozen() ? nullptr : layer.get());
      layers_.push_back(std::move(layer));
      continue;
    }
    if (sources_of(after[i]) != nullptr) {
      const auto* multiply = std::get_if<Multiply>(&after[i]);
      auto layer = multiply == nullptr ? make_cl_add(shared_, last(), what_ + "sum")
                                       : make_cl_multiply(shared_, *multiply, last(), what_ + "product");
      added_.push_back(layer.get());
      layers_.push_back(std::move(layer));
      continue;
    }
    layers_.push_back(
        make_cl_layer(shared_, after[i], last(), origin_of(spec_), max_after_relu && i == 1, what_ + "maps"));
  }
  norms_.resize(layers_.size());
}

const DeviceTensor& ClShard::forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) {
  invariant(input.shape() == input_shape(spec_.stage, spec_.batch), "the input has the shard's shape");
  const ClBuffer& maps = own(input).buffer();
  input_ = pass.training ? &maps : nullptr;
  gradient_ = nullptr;
  if (direct_ != nullptr && samples.first == 0) direct_->input_changed();
  by(choice_.forward)
      .forward(maps, weights_.values.buffer(), bias_.values.buffer(), activation_, maps_->buffer(), samples);
  pass_ = pass;
  next_ = 0;
  const SampleRange taken = spec_.taken_by_layers(samples);
  if (taken.count > 0) run(taken);
  return last();
}

const DeviceTensor* ClShard::backward_input(const DeviceTensor& output_gradient, SampleRange samples) {
  invariant(input_ != nullptr, "backward follows a forward in training");
  invariant(output_gradient.shape() == last().shape(), "the gradient has the shape of the shard's output");
  const SampleRange taken = spec_.read_by_backward(samples);
  if (taken.count > 0) {
    gradient_ = &own(output_gradient).buffer();
    next_ = layers_.size();
    run_back(taken);
  }
  if (!spec_.input_gradient) return nullptr;
  by(choice_.input_gradient).input_gradient(*gradient_, weights_.values.buffer(), input_gradient_->buffer(), samples);
  return input_gradient_.get();
}

void ClShard::backward_filters() {
  invariant(gradient_ != nullptr, "backward_filters follows backward_input");
  if (weights_.gradient == nullptr) return;
  by(choice_.filter_gradient).filter_gradient(*input_, *gradient_, weights_.gradient->buffer());
  if (bias_.gradient == nullptr) return;
  shared_.sum_channels(sum_maps_, conv_shape(spec_.stage, spec_.batch, spec_.filters.count), *gradient_, bias_slices_,
                       bias_.gradient->buffer());
}

std::vector<ClParameter*> ClShard::parameters() const {
  std::vector<ClParameter*> all;
  if (has_weights()) all.push_back(&weights_);
  if (spec_.stage.conv.bias) all.push_back(&bias_);
  for (const auto& layer : layers_) {
    for (ClParameter* each : layer->parameters()) all.push_back(each);
  }
  return all;
}

void ClShard::set_state(const ShardState& state) {
  const std::vector<ClParameter*> all = parameters();
  invariant(state.parameters.size() == all.size(), "the state belongs to the shard's stage");
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->take(state.parameters[i]);
  constexpr float kNotBroken = 0.0F;
  shared_.context.write(broken_, 0, {&kNotBroken, 1});
  shared_.context.finish();
  *broken_on_host_ = kNotBroken;
  weights_changed();
}

}  // namespace

std::unique_ptr<Shard> make_cl_shard(ClShared& shared, const ShardSpec& spec) {
  return std::make_unique<ClShard>(shared, spec);
}

}  // namespace convoy
