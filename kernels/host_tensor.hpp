// The opaque tensor of devices that compute on NCHW arrays in host memory.
#pragma once

#include <algorithm>

#include "kernels/device.hpp"

namespace convoy {

template <class T>
class HostTensor : public DeviceTensor {
 public:
  explicit HostTensor(const Shape& shape) : values(shape, T{0}) {}

  Shape shape() const override { return values.shape(); }
  using DeviceTensor::read;
  using DeviceTensor::write;
  void write(SampleRange samples, std::span<const float> from) override {
    const std::span<T> to = values.samples(samples.first, samples.count);
    invariant(from.size() == to.size(), "as many values as the samples hold");
    std::transform(from.begin(), from.end(), to.begin(), [](float value) { return static_cast<T>(value); });
  }
  void read(SampleRange samples, std::span<float> to) const override {
    const std::span<const T> from = values.samples(samples.first, samples.count);
    invariant(to.size() == from.size(), "as many values as the samples hold");
    std::transform(from.begin(), from.end(), to.begin(), [](T value) { return static_cast<float>(value); });
  }

  BasicTensor<T> values;
};

/// The host tensor behind a device tensor. Throws BrokenInvariant for one of another device.
template <class T>
const BasicTensor<T>& host_values(const DeviceTensor& tensor) {
  const auto* host = dynamic_cast<const HostTensor<T>*>(&tensor);
  invariant(host != nullptr, "a tensor of the same device");
  return host->values;
}

/// Weights, velocities and gradients of a shard in host memory, and the optimizer's step on them.
template <class T>
struct HostParameters {
  BasicTensor<T> weights, bias, weight_velocity, bias_velocity, weight_gradient, bias_gradient;

  HostParameters(const Stage& stage, int filters)
      : weights(weight_shape(stage, filters), T{0}),
        bias({filters, 1}, T{0}),
        weight_velocity(weights),
        bias_velocity(bias),
        weight_gradient(weights),
        bias_gradient(bias) {}

  void update(const SgdStep& step) {
    apply(step, weights, weight_velocity, weight_gradient);
    apply(step, bias, bias_velocity, bias_gradient);
  }

  ShardState state() const {
    return {convert(weights), convert(bias), convert(weight_velocity), convert(bias_velocity)};
  }
  void set_state(const ShardState& state) {
    take(state.weights, weights);
    take(state.bias, bias);
    take(state.weight_velocity, weight_velocity);
    take(state.bias_velocity, bias_velocity);
  }
  static Tensor convert(const BasicTensor<T>& from) {
    Tensor to(from.shape());
    std::transform(from.span().begin(), from.span().end(), to.data(),
                   [](T value) { return static_cast<float>(value); });
    return to;
  }

 private:
  static void take(const Tensor& from, BasicTensor<T>& to) {
    invariant(from.shape() == to.shape(), "a state of the shard's shape");
    std::transform(from.span().begin(), from.span().end(), to.data(),
                   [](float value) { return static_cast<T>(value); });
  }
  static void apply(const SgdStep& step, BasicTensor<T>& values, BasicTensor<T>& velocity,
                    const BasicTensor<T>& gradient) {
    const auto rate = static_cast<T>(step.learning_rate);
    const auto momentum = static_cast<T>(step.momentum);
    const auto decay = static_cast<T>(step.weight_decay);
    for (std::size_t i = 0; i < values.size(); ++i) {
      T& v = velocity.data()[i];
      T& w = values.data()[i];
      v = momentum * v + (gradient.data()[i] + decay * w);
      w -= rate * v;
    }
  }
};

}  // namespace convoy
