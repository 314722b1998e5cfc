// The reference device: plain loops, kept for ever as the oracle against which other devices are tested.
#pragma once

#include <memory>

#include "kernels/host/channel_layers.hpp"
#include "kernels/host/weightless.hpp"

namespace convoy {

/// A shard as plain loops over NCHW tensors. Tensors and weights are stored as T; convolutions sum in double.
template <class T>
class ReferenceShard : public Shard {
 public:
  explicit ReferenceShard(const ShardSpec& spec);

  std::unique_ptr<DeviceTensor> make_input() const override;
  std::unique_ptr<DeviceTensor> make_output_gradient() const override;
  using Shard::backward_input;
  using Shard::forward;
  const ShardSpec& spec() const override { return spec_; }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override;
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override;
  void backward_filters() override;
  std::vector<float> moments() override { return layers_.moments(serially); }
  const DeviceTensor& normalise(std::span<const double> joint) override;
  std::vector<float> slopes(const DeviceTensor& output_gradient) override;
  void take_slopes(std::span<const double> joint) override;
  void update(const UpdateStep& step) override { parameters.update(step); }
  bool finite() const override { return parameters.finite(); }
  ShardState state() const override { return parameters.state(); }
  void set_state(const ShardState& state) override { parameters.set_state(state); }
  std::vector<Tensor> gradients() const override { return parameters.gradients(); }
  void set_gradients(const std::vector<Tensor>& gradients) override { parameters.set_gradients(gradients); }

  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override;
  void connect(std::size_t index, const DeviceTensor& maps) override { layers_.connect(index, host_values<T>(maps)); }
  const DeviceTensor& added_gradient(std::size_t index) const override { return added_gradients_.at(index); }

  HostParameters<T> parameters;  ///< public for gradient checks

 private:
  void convolve(SampleRange samples);
  void take_gradient(const DeviceTensor& output_gradient, SampleRange samples);
  void give_added_gradients(SampleRange samples);
  void find_input_gradient(SampleRange samples);
  /// Returns the channels that filter number `k` of the shard reads.
  FilterRange channels_of(int k) const { return channels_for(spec_.stage, {spec_.filters.first + k, 1}); }

  ShardSpec spec_;
  ChannelLayers<T> layers_;
  HostTensor<T> output_;
  Weightless<T> weightless_;
  HostTensor<T> input_gradient_;
  std::vector<HostTensor<T>> added_gradients_;
  const BasicTensor<T>* input_ = nullptr;  ///< input of the last training forward
};

/// Returns the device "reference", which stores floats and sums in double.
std::unique_ptr<Device> make_reference_device();
/// Returns the device "reference64", which computes in double and rounds to float only where data enters and leaves.
std::unique_ptr<Device> make_reference64_device();

}  // namespace convoy
