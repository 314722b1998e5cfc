// The tensor of devices that compute on NCHW arrays in host memory.
#pragma once

#include <algorithm>

#include "kernels/device.hpp"

namespace convoy {

/// A device tensor whose values are an NCHW array of T in host memory.
template <class T>
class HostTensor : public DeviceTensor {
 public:
  explicit HostTensor(const Shape& shape) : values(shape, T{0}) {}

  Shape shape() const override { return values.shape(); }
  using DeviceTensor::read;
  using DeviceTensor::write;
  void write(SampleRange samples, std::span<const float> from) override {
    const std::span<T> to = values.samples(samples.first, samples.count);
    invariant(from.size() == to.size(), "the values fill the samples");
    std::transform(from.begin(), from.end(), to.begin(), [](float value) { return static_cast<T>(value); });
  }
  bool write_pixels(SampleRange samples, std::span<const std::uint8_t> pixels, const Normaliser& normaliser) override {
    const std::span<T> to = values.samples(samples.first, samples.count);
    invariant(pixels.size() == to.size(), "the pixels fill the samples");
    const auto map = static_cast<std::size_t>(shape().h) * static_cast<std::size_t>(shape().w);
    normaliser.normalise(pixels, {0, shape().c}, map, to.data());
    return true;
  }
  void read(SampleRange samples, std::span<float> to) const override {
    const std::span<const T> from = values.samples(samples.first, samples.count);
    invariant(to.size() == from.size(), "the values fill the samples");
    std::transform(from.begin(), from.end(), to.begin(), [](T value) { return static_cast<float>(value); });
  }

  BasicTensor<T> values;
};

/// Returns the host tensor behind a device tensor. Throws BrokenInvariant if it belongs to another device.
template <class T>
const BasicTensor<T>& host_values(const DeviceTensor& tensor) {
  const auto* host = dynamic_cast<const HostTensor<T>*>(&tensor);
  invariant(host != nullptr, "the tensor belongs to this device");
  return host->values;
}

/// A parameter of a shard in host memory.
template <class T>
struct HostParameter {
  BasicTensor<T> value;
  std::vector<BasicTensor<T>> moments;
  BasicTensor<T> gradient;  ///< empty where the parameter is not trained
  float rate = 1.0F;        ///< factor of the learning rate
  bool trained() const { return gradient.size() > 0; }
};

/// All parameters of a shard, in the order of parameters_of(), and the optimizer's step on them.
template <class T>
class HostParameters {
 public:
  HostParameters(const Stage& stage, int filters) : of_convolution_(convolution_parameters(stage)) {
    const ShardState start = zero_state(stage, filters);
    for (const ParameterSpec& spec : parameters_of(stage, filters)) {
      const std::size_t moments = spec.trained ? static_cast<std::size_t>(stage.moments) : 0;
      all_.push_back({BasicTensor<T>(spec.shape), std::vector<BasicTensor<T>>(moments, BasicTensor<T>(spec.shape)),
                      spec.trained ? BasicTensor<T>(spec.shape, T{0}) : BasicTensor<T>(), spec.rate});
    }
    set_state(start);
  }

  HostParameter<T>& weights() { return all_[0]; }
  const HostParameter<T>& weights() const { return all_[0]; }
  /// Returns the bias, or null where the convolution has none.
  HostParameter<T>* bias() { return of_convolution_ > 1 ? &all_[1] : nullptr; }
  const HostParameter<T>* bias() const { return of_convolution_ > 1 ? &all_[1] : nullptr; }
  /// Returns weights, biases, running means and running variances of batch norm number `index` of the stage.
  std::span<HostParameter<T>, 4> batch_norm(std::size_t index) {
    return std::span<HostParameter<T>>(all_).subspan(of_convolution_ + 4 * index).template first<4>();
  }
  std::vector<HostParameter<T>>& all() { return all_; }

  void update(const UpdateStep& step) {
    for (HostParameter<T>& each : all_) {
      if (!each.trained()) {
        finite_ = all_finite<T>(each.value.span()) && finite_;
        continue;
      }
      std::vector<T*> moments;
      for (BasicTensor<T>& moment : each.moments) moments.push_back(moment.data());
      finite_ = update_values(with_rate(step, each.rate), each.gradient.data(), each.value.data(), moments.data(), 0,
                              each.value.size()) &&
                finite_;
    }
  }
  /// Returns whether the updates since the last set_state() left finite values.
  bool finite() const { return finite_; }

  ShardState state() const {
    ShardState state;
    for (const HostParameter<T>& each : all_) {
      Parameter& out = state.parameters.emplace_back(Parameter{convert(each.value), {}});
      for (const BasicTensor<T>& moment : each.moments) out.moments.push_back(convert(moment));
    }
    return state;
  }
  void set_state(const ShardState& state) {
    invariant(state.parameters.size() == all_.size(), "the state belongs to the shard's stage");
    finite_ = true;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      take(state.parameters[i].value, all_[i].value);
      for (std::size_t m = 0; m < all_[i].moments.size(); ++m) {
        take(state.parameters[i].moments.at(m), all_[i].moments[m]);
      }
    }
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const HostParameter<T>& each : all_) all.push_back(convert(each.gradient));
    return all;
  }
  void set_gradients(const std::vector<Tensor>& gradients) {
    invariant(gradients.size() == all_.size(), "each parameter has a gradient");
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].trained()) take(gradients[i], all_[i].gradient);
    }
  }

 private:
  static Tensor convert(const BasicTensor<T>& from) {
    Tensor to(from.shape());
    std::transform(from.span().begin(), from.span().end(), to.data(),
                   [](T value) { return static_cast<float>(value); });
    return to;
  }
  static void take(const Tensor& from, BasicTensor<T>& to) {
    invariant(from.shape() == to.shape(), "the state has the shard's shape");
    std::transform(from.span().begin(), from.span().end(), to.data(),
                   [](float value) { return static_cast<T>(value); });
  }

  std::size_t of_convolution_;
  std::vector<HostParameter<T>> all_;
  bool finite_ = true;
};

}  // namespace convoy
