#include "kernels/onednn/device.hpp"

#include <cstring>

#include "kernels/host/grouped.hpp"
#include "kernels/host/on_host.hpp"
#include "kernels/onednn/batch_norm.hpp"
#include "kernels/onednn/convolution.hpp"
#include "kernels/onednn/join.hpp"

namespace convoy {
namespace {

const OnednnTensor& own(const DeviceTensor& tensor) {
  const auto* ours = dynamic_cast<const OnednnTensor*>(&tensor);
  invariant(ours != nullptr, "the tensor belongs to this device");
  return *ours;
}

/// Returns the activation that a convolution includes, or null.
const Activation* fused_activation(const Stage& stage) {
  if (stage.kind != StageKind::convolution || stage.after.empty()) return nullptr;
  const auto* first = std::get_if<Activation>(&stage.after.front());
  return first != nullptr && joins_convolutions(*first) ? first : nullptr;
}

class OnednnShard : public Shard {
 public:
  OnednnShard(OnednnEngine& engine, const ShardSpec& spec, std::unique_ptr<OnednnFront> front);

  std::unique_ptr<DeviceTensor> make_input() const override {
    return std::make_unique<OnednnTensor>(engine_, input_shape(spec_.stage, spec_.batch), front_->input_desc());
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return std::make_unique<OnednnTensor>(engine_, output_->shape(), output_->memory().get_desc());
  }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    const Added& added = added_.at(index);
    return std::make_unique<OnednnTensor>(engine_, added.shape, added.layer->taken_gradient().get_desc());
  }
  void connect(std::size_t index, const DeviceTensor& maps) override {
    invariant(maps.shape() == added_.at(index).shape, "the maps have the shape that the layer takes in");
    added_.at(index).layer->connect(own(maps).memory());
  }
  const DeviceTensor& added_gradient(std::size_t index) const override { return *added_.at(index).gradient; }
  const ShardSpec& spec() const override { return spec_; }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override;
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override;
  std::vector<float> moments() override {
    engine_.use_threads();
    invariant(next_ < layers_.size() && joins(next_), "moments follows the last forward, or normalise");
    return norms_[next_]->moments();
  }
  const DeviceTensor& normalise(std::span<const double> joint) override;
  std::vector<float> slopes(const DeviceTensor& output_gradient) override;
  void take_slopes(std::span<const double> joint) override;
  void backward_filters() override;
  void update(const UpdateStep& step) override;
  bool finite() const override { return finite_; }
  ShardState state() const override;
  void set_state(const ShardState& state) override;
  std::vector<Tensor> gradients() const override;
  void set_gradients(const std::vector<Tensor>& gradients) override;

 private:
  /// Returns the activation that the convolution includes, or null.
  const Activation* fused() const { return fused_activation(spec_.stage); }
  /// Returns the layers' parameters in the order of parameters_of().
  std::vector<const OnednnParameter*> layer_parameters() const;
  void make_layers();
  void run(SampleRange samples);
  void run_back(SampleRange samples);
  /// Returns whether a layer is a batch norm at which the current pass stops, because shards join its statistics.
  bool joins(std::size_t layer) const { return norms_[layer] != nullptr && spec_.joins_statistics() && pass_.training; }

  OnednnEngine& engine_;
  ShardSpec spec_;
  std::unique_ptr<OnednnFront> front_;
  std::vector<std::unique_ptr<OnednnLayer>> layers_;
  std::vector<OnednnNorm*> norms_;  ///< by layer; null for other layers and frozen norms
  /// The layers among them that take in other maps.
  struct Added {
    OnednnJoin* layer;
    Shape shape;
    std::unique_ptr<OnednnTensor> gradient;
  };
  std::vector<Added> added_;
  std::unique_ptr<OnednnTensor> output_;
  std::unique_ptr<OnednnTensor> input_gradient_;
  bool finite_ = true;
  Pass pass_;             ///< of the last forward
  std::size_t next_ = 0;  ///< the layer that runs next; in the backward pass the layer before it runs next
  const dnnl::memory* input_ = nullptr;  ///< input of the last training forward
  /// gradient with respect to the convolution's own output, of the last backward_input
  const dnnl::memory* gradient_ = nullptr;
};

OnednnShard::OnednnShard(OnednnEngine& engine, const ShardSpec& spec, std::unique_ptr<OnednnFront> front)
    : engine_(engine), spec_(spec), front_(std::move(front)) {
  make_layers();
  set_state(zero_state(spec.stage, spec.filters.count));
  const dnnl::memory& last = layers_.empty() ? front_->output() : layers_.back()->output();
  output_ = std::make_unique<OnednnTensor>(engine, output_shape(spec.stage, spec.batch, spec.filters.count), last);
  if (spec.input_gradient) {
    input_gradient_ =
        std::make_unique<OnednnTensor>(engine, input_shape(spec.stage, spec.batch), front_->input_gradient());
  }
}

void OnednnShard::make_layers() {
  const std::vector<ChannelLayer>& after = spec_.stage.after;
  Shape shape = conv_shape(spec_.stage, spec_.batch, spec_.filters.count);
  const std::vector<Shape> taken = added_shapes(spec_.stage, spec_.batch, spec_.filters.count);
  const int micro_batch = spec_.waits_for_batch() ? spec_.batch : spec_.batch / spec_.micro_batches;
  dnnl::memory passed = front_->output();
  std::size_t i = fused() == nullptr ? 0 : 1;
  const auto* next = i < after.size() ? std::get_if<Pooling>(&after[i]) : nullptr;
  const bool pooled_relu = i == 1 && *fused() == Activation::relu && next != nullptr && next->kind == PoolKind::max;
  if (i == 1 && !pooled_relu) {
    layers_.push_back(make_onednn_activation_backward(engine_, *fused(), shape, micro_batch, passed));
  }
  for (; i < after.size(); ++i) {
    if (const auto* norm = std::get_if<BatchNorm>(&after[i])) {
      const auto* then = i + 1 < after.size() ? std::get_if<Activation>(&after[i + 1]) : nullptr;
      // oneDNN's ReLU would hide a NaN, which the statistics of a frozen norm do not spread.
      const bool relu = !norm->frozen() && then != nullptr && *then == Activation::relu;
      auto layer =
          make_onednn_batch_norm(engine_, *norm, shape, passed,
                                 {.moments = spec_.stage.moments, .fused = relu, .whole_batch = whole_batch(spec_)});
      norms_.resize(layers_.size());
      norms_.push_back(norm->frozen() ? nullptr : layer.get());
      layers_.push_back(std::move(layer));
      passed = layers_.back()->output();
      if (relu) ++i;
      continue;
    }
    if (sources_of(after[i]) != nullptr) {
      const auto* multiply = std::get_if<Multiply>(&after[i]);
      auto layer = multiply == nullptr ? make_onednn_add(engine_, shape, micro_batch, passed)
                                       : make_onednn_multiply(engine_, *multiply, shape, micro_batch, passed);
      const Shape& maps = taken[added_.size()];
      added_.push_back({layer.get(), maps, std::make_unique<OnednnTensor>(engine_, maps, layer->taken_gradient())});
      layers_.push_back(std::move(layer));
      passed = layers_.back()->output();
      continue;
    }
    layers_.push_back(
        make_onednn_layer(engine_, after[i], shape, micro_batch, passed, origin_of(spec_), pooled_relu && i == 1));
    passed = layers_.back()->output();
    if (const auto* pool = std::get_if<Pooling>(&after[i])) shape = pooled_shape(*pool, shape);
  }
  norms_.resize(layers_.size());
}

const DeviceTensor& OnednnShard::forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) {
  engine_.use_threads();
  invariant(input.shape() == input_shape(spec_.stage, spec_.batch), "the input has the shard's shape");
  input_ = &own(input).memory();
  front_->forward(*input_, samples);
  pass_ = pass;
  next_ = 0;
  const SampleRange taken = spec_.taken_by_layers(samples);
  if (taken.count > 0) run(taken);
  if (!pass.training) input_ = nullptr;
  return *output_;
}

/// Runs the layers from next_ on, to the next batch norm whose statistics are joined.
void OnednnShard::run(SampleRange samples) {
  for (; next_ < layers_.size() && !joins(next_); ++next_) layers_[next_]->forward(pass_, samples);
}

const DeviceTensor& OnednnShard::normalise(std::span<const double> joint) {
  engine_.use_threads();
  norms_[next_++]->normalise(joint);
  run({0, spec_.batch});
  return *output_;
}

const DeviceTensor* OnednnShard::backward_input(const DeviceTensor& output_gradient, SampleRange samples) {
  engine_.use_threads();
  invariant(input_ != nullptr, "backward follows a forward in training");
  invariant(output_gradient.shape() == output_->shape(), "the gradient has the shape of the shard's output");
  const SampleRange taken = spec_.read_by_backward(samples);
  if (taken.count > 0) {
    gradient_ = &own(output_gradient).memory();
    next_ = layers_.size();
    run_back(taken);
  }
  if (!spec_.input_gradient) return nullptr;
  front_->find_input_gradient(*gradient_, samples);
  return input_gradient_.get();
}

/// Runs the layers before next_ backward, to the next batch norm whose statistics are joined.
void OnednnShard::run_back(SampleRange samples) {
  for (; next_ > 0 && !joins(next_ - 1); --next_) {
    const Shape& shape = next_ < layers_.size() ? layers_[next_]->input_shape() : output_->shape();
    layers_[next_ - 1]->backward(samples_of(*gradient_, shape, samples), samples);
    gradient_ = &layers_[next_ - 1]->input_gradient();
  }
}

std::vector<float> OnednnShard::slopes(const DeviceTensor& output_gradient) {
  engine_.use_threads();
  invariant(output_gradient.shape() == output_->shape(), "the gradient has the shape of the shard's output");
  if (next_ == layers_.size()) gradient_ = &own(output_gradient).memory();
  run_back({0, spec_.batch});
  invariant(next_ > 0, "slopes follows the last normalise, or take_slopes of the norm behind");
  return norms_[next_ - 1]->slopes(*gradient_);
}

void OnednnShard::take_slopes(std::span<const double> joint) {
  engine_.use_threads();
  norms_[--next_]->take_slopes(joint);
  gradient_ = &layers_[next_]->input_gradient();
  run_back({0, spec_.batch});
}

std::vector<const OnednnParameter*> OnednnShard::layer_parameters() const {
  std::vector<const OnednnParameter*> all;
  for (const auto& layer : layers_) {
    for (const OnednnParameter* each : layer->parameters()) all.push_back(each);
  }
  return all;
}

void OnednnShard::update(const UpdateStep& step) {
  engine_.use_threads();
  finite_ = front_->update(step) && finite_;
  for (const OnednnParameter* each : layer_parameters()) {
    finite_ = each->update(step) && finite_;
  }
}

ShardState OnednnShard::state() const {
  ShardState state{front_->parameters()};
  for (const OnednnParameter* each : layer_parameters()) state.parameters.push_back(each->list_to_host());
  return state;
}

void OnednnShard::set_state(const ShardState& state) {
  const std::vector<const OnednnParameter*> of_layers = layer_parameters();
  const std::size_t first = front_->parameter_count();
  invariant(state.parameters.size() == first + of_layers.size(), "the state belongs to the shard's stage");
  finite_ = true;
  front_->take(state.parameters);
  for (std::size_t i = 0; i < of_layers.size(); ++i) of_layers[i]->take_list(state.parameters[first + i]);
}

std::vector<Tensor> OnednnShard::gradients() const {
  std::vector<Tensor> all = front_->gradients();
  for (const OnednnParameter* each : layer_parameters()) {
    all.push_back(each->trained() ? read_list(each->gradient) : Tensor());
  }
  return all;
}

void OnednnShard::set_gradients(const std::vector<Tensor>& gradients) {
  const std::vector<const OnednnParameter*> of_layers = layer_parameters();
  const std::size_t first = front_->parameter_count();
  invariant(gradients.size() == first + of_layers.size(), "each parameter has a gradient");
  front_->set_gradients(gradients);
  for (std::size_t i = 0; i < of_layers.size(); ++i) {
    if (of_layers[i]->trained()) write_list(gradients[first + i], of_layers[i]->gradient);
  }
}

void OnednnShard::backward_filters() {
  engine_.use_threads();
  invariant(input_ != nullptr && gradient_ != nullptr, "backward_filters follows backward_input");
  front_->find_parameter_gradients(*input_, *gradient_);
}

/// Returns whether oneDNN may use these instructions. Its names of instruction sets are sets of bits: a newer set
/// includes the bits of the older sets that it extends.
bool uses(dnnl::cpu_isa instructions) {
  const auto wanted = static_cast<unsigned>(instructions);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

const char* instruction_set() {
  if (uses(dnnl::cpu_isa::avx512_core)) return "AVX-512";
  if (uses(dnnl::cpu_isa::avx2)) return "AVX2";
  return uses(dnnl::cpu_isa::avx) ? "AVX" : "SSE4.1";
}

bool is_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") > 0;
#else
  return false;
#endif
}

class OnednnDevice : public Device {
 public:
  OnednnDevice(int threads, bool bf16) {
    if (bf16 && !uses(dnnl::cpu_isa::avx512_core_bf16)) {
      fail(
          "this processor has no bfloat16 instructions (AVX-512 BF16, AMX), or oneDNN may not use them; omit "
          "--compute bf16");
    }
    engine_.threads = threads;
    engine_.bf16 = bf16;
    engine_.amd = is_amd();
    engine_.amx = uses(dnnl::cpu_isa::avx512_core_amx);
    const dnnl_version_t& version = *dnnl_version();
    info_.name = "cpu";
    info_.threads = threads;
    info_.memory_factor = 1.3;  // includes the weights in each pass's layout (tests/devices, ProcessorMemory)
    info_.filter_block = uses(dnnl::cpu_isa::avx512_core) ? 16 : 8;
    engine_.vector_width = info_.filter_block;
    info_.description = fmt::format("oneDNN {}.{}.{}, {}, {} thread{}{}", version.major, version.minor, version.patch,
                                    instruction_set(), threads, threads == 1 ? "" : "s", bf16 ? ", bfloat16" : "");
  }

  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override {
    const dnnl::memory zeros = engine_.make(plain_desc(shape));
    std::memset(zeros.get_data_handle(), 0, zeros.get_desc().get_size());
    return std::make_unique<OnednnTensor>(engine_, shape, zeros);
  }

  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    engine_.use_threads();
    const bool whole = spec.filters.count == spec.stage.conv.filters;
    if (spec.stage.conv.groups > 1 && !whole) return compile_in_parts(*this, spec, true);
    try {
      std::unique_ptr<OnednnFront> front;
      if (spec.stage.kind == StageKind::convolution) {
        front = std::make_unique<OnednnConvolution>(engine_, spec, fused_activation(spec.stage));
      } else {
        front = make_onednn_weightless(engine_, spec);
      }
      if (front == nullptr) return compile_on_host(*this, spec, engine_.threads);
      return std::make_unique<OnednnShard>(engine_, spec, std::move(front));
    } catch (const dnnl::error& error) {
      fail("stage {}, {} filters, batch {}: oneDNN cannot compute the shard: {}", spec.stage.name, spec.filters.count,
           spec.batch, error.what());
    }
  }

 private:
  OnednnEngine engine_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_onednn_device(int threads, bool bf16) {
  return std::make_unique<OnednnDevice>(threads, bf16);
}

}  // namespace convoy
