#include "kernels/host/on_host.hpp"

#include "kernels/eigen/device.hpp"

namespace convoy {
namespace {

class ShardOnHost : public Shard {
 public:
  ShardOnHost(Device& device, const ShardSpec& spec, int threads)
      : device_(device), host_(make_eigen_device(threads)), shard_(host_->compile(spec)) {
    input_ = pair(shard_->make_input());
    output_ = pair(shard_->make_output_gradient());
    output_gradient_ = pair(shard_->make_output_gradient());
    if (spec.input_gradient) input_gradient_ = pair(shard_->make_input());
    for (std::size_t i = 0; i < added_shapes(spec.stage, spec.batch, spec.filters.count).size(); ++i) {
      added_.push_back(pair(shard_->make_added(i)));
      shard_->connect(i, *added_.back().on_host);
      connected_.push_back(nullptr);
    }
  }

  std::unique_ptr<DeviceTensor> make_input() const override { return device_.make_tensor(input_.on_host->shape()); }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override {
    return device_.make_tensor(output_.on_host->shape());
  }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override {
    return device_.make_tensor(added_.at(index).on_host->shape());
  }
  const ShardSpec& spec() const override { return shard_->spec(); }
  void connect(std::size_t index, const DeviceTensor& maps) override { connected_.at(index) = &maps; }
  const DeviceTensor& added_gradient(std::size_t index) const override { return *added_.at(index).on_device; }

  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override {
    copy(input, *input_.on_host, samples);
    for (std::size_t i = 0; i < added_.size(); ++i) {
      invariant(connected_[i] != nullptr, "connect is called before forward");
      copy(*connected_[i], *added_[i].on_host, samples);
    }
    const DeviceTensor& output = shard_->forward(*input_.on_host, pass, samples);
    copy(output, *output_.on_device, spec().ready_after_forward(samples, pass));
    return *output_.on_device;
  }
  std::vector<float> moments() override { return shard_->moments(); }
  const DeviceTensor& normalise(std::span<const double> joint) override {
    copy(shard_->normalise(joint), *output_.on_device, {0, spec().batch});
    return *output_.on_device;
  }
  std::vector<float> slopes(const DeviceTensor& output_gradient) override {
    copy(output_gradient, *output_gradient_.on_host, {0, spec().batch});
    return shard_->slopes(*output_gradient_.on_host);
  }
  void take_slopes(std::span<const double> joint) override {
    shard_->take_slopes(joint);
    give_added_gradients({0, spec().batch});
  }
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override {
    const SampleRange taken = spec().read_by_backward(samples);
    copy(output_gradient, *output_gradient_.on_host, taken);
    const DeviceTensor* gradient = shard_->backward_input(*output_gradient_.on_host, samples);
    give_added_gradients(taken);
    if (gradient == nullptr) return nullptr;
    copy(*gradient, *input_gradient_.on_device, samples);
    return input_gradient_.on_device.get();
  }
  void backward_filters() override { shard_->backward_filters(); }
  void update(const UpdateStep& step) override { shard_->update(step); }
  bool finite() const override { return shard_->finite(); }
  ShardState state() const override { return shard_->state(); }
  void set_state(const ShardState& state) override { shard_->set_state(state); }
  std::vector<Tensor> gradients() const override { return shard_->gradients(); }
  void set_gradients(const std::vector<Tensor>& gradients) override { shard_->set_gradients(gradients); }

 private:
  /// The same tensor in both memories.
  struct Pair {
    std::unique_ptr<DeviceTensor> on_host;
    std::unique_ptr<DeviceTensor> on_device;
  };

  Pair pair(std::unique_ptr<DeviceTensor> on_host) const {
    const Shape shape = on_host->shape();
    return {std::move(on_host), device_.make_tensor(shape)};
  }
  void give_added_gradients(SampleRange samples) {
    for (std::size_t i = 0; i < added_.size(); ++i) copy(shard_->added_gradient(i), *added_[i].on_device, samples);
  }
  void copy(const DeviceTensor& from, DeviceTensor& to, SampleRange samples) {
    if (samples.count == 0) return;
    values_.resize(static_cast<std::size_t>(samples.count) * from.shape().sample_size());
    from.read(samples, values_);
    to.write(samples, values_);
  }

  Device& device_;
  std::unique_ptr<Device> host_;
  std::unique_ptr<Shard> shard_;
  Pair input_, output_, output_gradient_, input_gradient_;
  std::vector<Pair> added_;
  std::vector<const DeviceTensor*> connected_;
  AlignedVector<float> values_;
};

}  // namespace

std::unique_ptr<Shard> compile_on_host(Device& device, const ShardSpec& spec, int threads) {
  return std::make_unique<ShardOnHost>(device, spec, threads);
}

}  // namespace convoy
