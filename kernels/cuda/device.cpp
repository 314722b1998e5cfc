#include "kernels/cuda/device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/layers.hpp"
#include "kernels/host/activation.hpp"
#include "kernels/host/grouped.hpp"

namespace convoy {

void cuda::raise(const std::string& what, bool lost) {
  if (lost) throw DeviceLost(what);
  throw Error(what);
}

namespace {

class CudaShard : public Shard {
 public:
  CudaShard(cuda::Gpu& gpu, const ShardSpec& spec, std::unique_ptr<CudaConvolution> convolution)
      : gpu_(gpu),
        spec_(spec),
        what_(fmt::format("stage {}: ", spec.stage.name)),
        convolution_(std::move(convolution)),
        weights_(gpu, convolves() ? weight_shape(spec.stage, spec.filters.count) : Shape{}, trained(convolves()),
                 spec.stage.moments, what_ + "weights"),
        bias_(gpu, {spec.stage.conv.bias ? spec.filters.count : 0, 1}, trained(spec.stage.conv.bias),
              spec.stage.moments, what_ + "biases"),
        maps_(gpu, conv_shape(spec.stage, spec.batch, spec.filters.count), what_ + "maps"),
        broken_(gpu) {
    if (spec.input_gradient) {
      input_gradient_ =
          std::make_unique<CudaTensor>(gpu, input_shape(spec.stage, spec.batch), what_ + "input gradient");
    }
    make_layers();
    set_state(zero_state(spec.stage, spec.filters.count));
    gpu.finish();
  }

  std::unique_ptr<DeviceTensor> make_input() const override {
    return std::make_unique<CudaTensor>(gpu_, input_shape(spec_.stage, spec_.batch), what_ + "input maps");
  }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return std::make_unique<CudaTensor>(gpu_, last().shape(), what_ + "output gradient");
  }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    return std::make_unique<CudaTensor>(gpu_, added_.at(index)->taken_gradient().shape(), what_ + "maps taken in");
  }
  void connect(std::size_t index, const DeviceTensor& maps) override { added_.at(index)->connect(own(maps)); }
  const DeviceTensor& added_gradient(std::size_t index) const override { return added_.at(index)->taken_gradient(); }
  const ShardSpec& spec() const override { return spec_; }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override {
    invariant(input.shape() == input_shape(spec_.stage, spec_.batch), "the input has the shard's shape");
    input_ = nullptr;
    gradient_ = nullptr;
    const CudaTensor& maps = own(input);
    convolution_->forward(maps.data(samples), weights_.values.data(),
                          spec_.stage.conv.bias ? bias_.values.data() : nullptr, activation_, maps_.data(samples));
    if (pass.training) input_ = &maps;
    pass_ = pass;
    next_ = 0;
    const SampleRange taken = spec_.taken_by_layers(samples);
    if (taken.count > 0) run(taken);
    return last();
  }
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override {
    invariant(input_ != nullptr, "backward follows a forward in training");
    invariant(output_gradient.shape() == last().shape(), "the gradient has the shape of the shard's output");
    const SampleRange taken = spec_.read_by_backward(samples);
    if (taken.count > 0) {
      gradient_ = &own(output_gradient);
      next_ = layers_.size();
      run_back(taken);
    }
    if (input_gradient_ == nullptr) return nullptr;
    convolution_->input_gradient(input_->data(samples), gradient_->data(samples), weights_.values.data(),
                                 input_gradient_->data(samples));
    return input_gradient_.get();
  }
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
    if (next_ == layers_.size()) gradient_ = &own(output_gradient);
    run_back({0, spec_.batch});
    invariant(next_ > 0, "slopes follows the last normalise, or take_slopes of the norm behind");
    return norms_[next_ - 1]->slopes(*gradient_);
  }
  void take_slopes(std::span<const double> joint) override {
    gradient_ = &norms_[--next_]->take_slopes(joint);
    run_back({0, spec_.batch});
  }
  void backward_filters() override {
    invariant(gradient_ != nullptr, "backward_filters follows backward_input");
    if (weights_.gradient == nullptr) return;
    convolution_->filter_gradient(input_->data(), gradient_->data(), weights_.gradient->data(),
                                  bias_.gradient != nullptr ? bias_.gradient->data() : nullptr);
  }
  void update(const UpdateStep& step) override {
    for (const CudaParameter* each : parameters()) each->update(gpu_, step, broken_.data());
  }
  bool finite() const override { return broken_.value() == 0; }
  ShardState state() const override {
    ShardState state;
    for (const CudaParameter* each : parameters()) state.parameters.push_back(each->to_host());
    return state;
  }
  void set_state(const ShardState& state) override {
    const std::vector<CudaParameter*> all = parameters();
    invariant(state.parameters.size() == all.size(), "the state belongs to the shard's stage");
    for (std::size_t i = 0; i < all.size(); ++i) all[i]->take(state.parameters[i]);
    gpu_.finish();
    *broken_.data() = 0;
  }
  std::vector<Tensor> gradients() const override {
    std::vector<Tensor> all;
    for (const CudaParameter* each : parameters()) {
      all.push_back(each->gradient != nullptr ? each->gradient->to_host() : Tensor());
    }
    return all;
  }
  void set_gradients(const std::vector<Tensor>& gradients) override {
    const std::vector<CudaParameter*> all = parameters();
    invariant(gradients.size() == all.size(), "each parameter has a gradient");
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->gradient != nullptr) all[i]->gradient->write(gradients[i].span());
    }
  }

 private:
  const CudaTensor& last() const { return layers_.empty() ? maps_ : layers_.back()->output(); }
  const CudaTensor& own(const DeviceTensor& tensor) const {
    const auto* ours = dynamic_cast<const CudaTensor*>(&tensor);
    invariant(ours != nullptr && &ours->gpu() == &gpu_, "the tensor belongs to this device");
    return *ours;
  }
  bool convolves() const { return spec_.stage.kind == StageKind::convolution; }
  /// Returns the factor of the learning rate of parameters of the convolution, if it has them.
  float trained(bool present) const { return present ? spec_.stage.conv.rate : 0.0F; }
  /// Returns the parameters in the order of parameters_of().
  std::vector<CudaParameter*> parameters() const {
    std::vector<CudaParameter*> all;
    if (convolves()) all.push_back(&weights_);
    if (spec_.stage.conv.bias) all.push_back(&bias_);
    for (const auto& layer : layers_) {
      for (CudaParameter* each : layer->parameters()) all.push_back(each);
    }
    return all;
  }
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
  void make_layers() {
    const std::vector<ChannelLayer>& after = spec_.stage.after;
    const auto* fused = after.empty() || !convolves() ? nullptr : std::get_if<Activation>(&after.front());
    if (fused != nullptr && !joins_convolutions_on_gpus(*fused)) fused = nullptr;
    bool after_relu = false;
    if (fused != nullptr) {
      activation_ = code_of(*fused);
      const auto* pool = after.size() > 1 ? std::get_if<Pooling>(&after[1]) : nullptr;
      after_relu = *fused == Activation::relu && pool != nullptr && pool->kind == PoolKind::max;
      if (!after_relu) layers_.push_back(make_cuda_fused_activation(gpu_, *fused, maps_, what_ + "maps"));
    }
    for (std::size_t i = fused != nullptr ? 1 : 0; i < after.size(); ++i) {
      if (const auto* norm = std::get_if<BatchNorm>(&after[i])) {
        auto layer =
            make_cuda_batch_norm(gpu_, *norm, {.moments = spec_.stage.moments, .whole_batch = whole_batch(spec_)},
                                 last(), what_ + "batch norm");
        norms_.resize(layers_.size());
        norms_.push_back(norm->frozen() ? nullptr : layer.get());
        layers_.push_back(std::move(layer));
        continue;
      }
      if (sources_of(after[i]) != nullptr) {
        const auto* multiply = std::get_if<Multiply>(&after[i]);
        auto layer = multiply == nullptr ? make_cuda_add(gpu_, last(), what_ + "sum")
                                         : make_cuda_multiply(gpu_, *multiply, last(), what_ + "product");
        added_.push_back(layer.get());
        layers_.push_back(std::move(layer));
        continue;
      }
      layers_.push_back(
          make_cuda_layer(gpu_, after[i], last(), origin_of(spec_), after_relu && i == 1, what_ + "maps"));
    }
    norms_.resize(layers_.size());
  }

  cuda::Gpu& gpu_;
  ShardSpec spec_;
  std::string what_;  ///< "stage conv2: ", for errors
  std::unique_ptr<CudaConvolution> convolution_;
  mutable CudaParameter weights_;  ///< empty where the stage has none
  mutable CudaParameter bias_;
  CudaTensor maps_;  ///< after convolution and fused activation
  int activation_ = 0;
  cuda::HostNumber broken_;  ///< not 0 after an update that left values that are not finite
  std::vector<std::unique_ptr<CudaLayer>> layers_;
  std::vector<CudaJoin*> added_;  ///< the layers among them that take in other maps
  std::vector<CudaNorm*> norms_;  ///< by layer; null for other layers and frozen norms
  Pass pass_;                     ///< of the last forward
  std::size_t next_ = 0;          ///< the layer that runs next; in the backward pass the layer before it runs next
  std::unique_ptr<CudaTensor> input_gradient_;
  const CudaTensor* input_ = nullptr;     ///< input of the last forward in training
  const CudaTensor* gradient_ = nullptr;  ///< gradient with respect to the convolution's output, of the last backward
};

void check_sizes(const ShardSpec& spec) {
  const std::size_t in = input_shape(spec.stage, spec.batch).size();
  const std::size_t out = conv_shape(spec.stage, spec.batch, spec.filters.count).size();
  const std::size_t weights = weight_shape(spec.stage, spec.filters.count).size();
  const std::size_t slices = spec.stage.conv.groups > 1 ? static_cast<std::size_t>(spec.batch) * weights : 0;
  const std::size_t largest = std::max({in, out, slices});
  if (largest > kMostValues) {
    fail(
        "stage {}: one batch needs maps of {} values, and the cuda device computes at most {} at once; make the batch "
        "smaller",
        spec.stage.name, largest, kMostValues);
  }
}

class CudaDevice : public Device {
 public:
  CudaDevice(const std::string& name, const std::string& library, std::unique_ptr<cuda::Gpu> gpu,
             MakeCudaConvolution make)
      : gpu_(std::move(gpu)), make_(make) {
    info_.name = name;
    info_.description =
        fmt::format("{}, {}, {}{}", gpu_->info().name, gpu_->info().detail, library, gpu_->tf32() ? ", TF32" : "");
    info_.memory = gpu_->info().available;
    info_.memory_factor = 1.4;  // the figure of OpenCL; it has not been measured on a GPU
    info_.filter_block = 8;
  }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    check_sizes(spec);
    if (spec.stage.kind != StageKind::convolution) {
      return std::make_unique<CudaShard>(*gpu_, spec, make_cuda_weightless(*gpu_, spec));
    }
    const bool in_groups = spec.stage.conv.groups > 1;
    if (in_groups && groups_in(spec) <= kMostParts) return compile_in_parts(*this, spec, false);
    std::unique_ptr<CudaConvolution> convolution =
        in_groups ? make_grouped_convolution(*gpu_, scratch_, spec) : make_(*gpu_, scratch_, spec);
    if (convolution == nullptr) convolution = make_product_convolution(*gpu_, scratch_, spec);
    return std::make_unique<CudaShard>(*gpu_, spec, std::move(convolution));
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override {
    return std::make_unique<CudaTensor>(*gpu_, shape, "maps");
  }
  void finish() override { gpu_->finish(); }

 private:
  std::unique_ptr<cuda::Gpu> gpu_;
  CudaScratch scratch_;
  MakeCudaConvolution make_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const std::string& name, const std::string& library,
                                         std::unique_ptr<cuda::Gpu> gpu, MakeCudaConvolution make) {
  return std::make_unique<CudaDevice>(name, library, std::move(gpu), make);
}

}  // namespace convoy
