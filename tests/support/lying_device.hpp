// A device whose shards compute correctly and then falsify one of their results, for tests of masters that verify.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"

namespace convoy {

struct Lie {
  enum class About { maps, part, weights, moments } about = About::maps;
  /// Returns what the slave says in place of a value.
  float (*say)(float value) = nullptr;
  int from_step = 1;  ///< counts from 1
};

class LyingShard : public Shard {
 public:
  LyingShard(std::unique_ptr<Shard> honest, Device& device, const Lie& lie)
      : honest_(std::move(honest)), device_(device), lie_(lie) {}

  const ShardSpec& spec() const override { return honest_->spec(); }
  std::unique_ptr<DeviceTensor> make_input() const override { return honest_->make_input(); }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override { return honest_->make_output_gradient(); }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override { return honest_->make_added(index); }
  void connect(std::size_t index, const DeviceTensor& maps) override { honest_->connect(index, maps); }
  const DeviceTensor& added_gradient(std::size_t index) const override { return honest_->added_gradient(index); }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override {
    if (pass.training && samples.first == 0) ++step_;
    const DeviceTensor& maps = honest_->forward(input, pass, samples);
    return lies(Lie::About::maps) ? falsified(maps) : maps;
  }
  const DeviceTensor* backward_input(const DeviceTensor& gradient, SampleRange samples) override {
    const DeviceTensor* part = honest_->backward_input(gradient, samples);
    return part != nullptr && lies(Lie::About::part) ? &falsified(*part) : part;
  }
  std::vector<float> moments() override { return honest_->moments(); }
  const DeviceTensor& normalise(std::span<const double> joint) override { return honest_->normalise(joint); }
  std::vector<float> slopes(const DeviceTensor& output_gradient) override { return honest_->slopes(output_gradient); }
  void take_slopes(std::span<const double> joint) override { honest_->take_slopes(joint); }
  void backward_filters() override { honest_->backward_filters(); }
  void update(const UpdateStep& step) override { honest_->update(step); }
  bool finite() const override { return honest_->finite(); }
  ShardState state() const override {
    ShardState state = honest_->state();
    for (Parameter& parameter : state.parameters) {
      if (lies(Lie::About::weights)) falsify(parameter.value.span());
      for (Tensor& moment : parameter.moments) {
        if (lies(Lie::About::moments)) falsify(moment.span());
      }
    }
    return state;
  }
  void set_state(const ShardState& state) override { honest_->set_state(state); }
  std::vector<Tensor> gradients() const override { return honest_->gradients(); }
  void set_gradients(const std::vector<Tensor>& gradients) override { honest_->set_gradients(gradients); }

 private:
  bool lies(Lie::About about) const { return lie_.about == about && step_ >= lie_.from_step; }
  void falsify(std::span<float> values) const {
    for (float& value : values) value = lie_.say(value);
  }
  const DeviceTensor& falsified(const DeviceTensor& result) {
    Tensor values(result.shape());
    result.read(values.span());
    falsify(values.span());
    said_ = device_.make_tensor(result.shape());
    said_->write(values.span());
    return *said_;
  }

  std::unique_ptr<Shard> honest_;
  Device& device_;
  Lie lie_;
  int step_ = 0;
  std::unique_ptr<DeviceTensor> said_;
};

class LyingDevice : public Device {
 public:
  LyingDevice(std::unique_ptr<Device> honest, Lie lie) : honest_(std::move(honest)), lie_(lie) {}
  const DeviceInfo& info() const override { return honest_->info(); }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    return std::make_unique<LyingShard>(honest_->compile(spec), *honest_, lie_);
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override { return honest_->make_tensor(shape); }

 private:
  std::unique_ptr<Device> honest_;
  Lie lie_;
};

}  // namespace convoy
