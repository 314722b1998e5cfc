// A shard whose inputs and outputs are host tensors, for tests.
#pragma once

#include <memory>
#include <span>

#include "kernels/device.hpp"

namespace convoy {

class HostShard {
 public:
  /// Compiles the shard and makes the buffers for its tensors.
  HostShard(Device& device, const ShardSpec& spec);

  const ShardSpec& spec() const { return spec_; }
  Shape input_shape() const { return input_->shape(); }
  Shape output_shape() const { return output_.shape(); }

  /// Sets the maps that the stage's Add layers add, in order. Call it before the first forward.
  void connect(const std::vector<Tensor>& added);
  /// The gradients of the last backward by the maps that Add layers add.
  std::vector<Tensor> added_gradients() const;

  /// Computes the shard's output of an input (batch, channels, height, width). The result is valid until the next call.
  const Tensor& forward(std::span<const float> input, const Pass& pass);
  /// Computes this shard's part of the gradient by the input from the gradient by the output, both in NCHW order.
  /// Returns null without spec().input_gradient.
  const Tensor* backward(std::span<const float> gradient);
  /// Runs forward and backward; each micro-batch goes forward and back before the next one.
  void forward_and_backward(std::span<const float> input, std::span<const float> gradient, const Pass& pass);
  /// The gradient by the input of the last forward_and_backward.
  const Tensor& input_gradient() const { return input_gradient_; }
  /// The output of the last forward.
  const Tensor& output() const { return output_; }
  /// The shard itself, for update and state.
  Shard& shard() { return *shard_; }

 private:
  ShardSpec spec_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<DeviceTensor> input_;
  std::unique_ptr<DeviceTensor> gradient_;
  std::vector<std::unique_ptr<DeviceTensor>> added_;
  Tensor output_;
  Tensor input_gradient_;
};

inline HostShard::HostShard(Device& device, const ShardSpec& spec)
    : spec_(spec),
      shard_(device.compile(spec)),
      input_(shard_->make_input()),
      gradient_(shard_->make_output_gradient()),
      output_(convoy::output_shape(spec.stage, spec.batch, spec.filters.count)),
      input_gradient_(spec.input_gradient ? Tensor(convoy::input_shape(spec.stage, spec.batch)) : Tensor()) {}

inline void HostShard::connect(const std::vector<Tensor>& added) {
  for (const Tensor& maps : added) {
    added_.push_back(shard_->make_added(added_.size()));
    added_.back()->write(maps.span());
    shard_->connect(added_.size() - 1, *added_.back());
  }
}

inline std::vector<Tensor> HostShard::added_gradients() const {
  std::vector<Tensor> gradients;
  for (const auto& added : added_) {
    const DeviceTensor& gradient = shard_->added_gradient(gradients.size());
    gradients.emplace_back(added->shape());
    gradient.read(gradients.back().span());
  }
  return gradients;
}

inline const Tensor& HostShard::forward(std::span<const float> input, const Pass& pass) {
  input_->write(input);
  shard_->forward(*input_, pass).read(output_.span());
  return output_;
}

inline const Tensor* HostShard::backward(std::span<const float> gradient) {
  gradient_->write(gradient);
  const DeviceTensor* result = shard_->backward(*gradient_);
  if (result == nullptr) return nullptr;
  result->read(input_gradient_.span());
  return &input_gradient_;
}

inline void HostShard::forward_and_backward(std::span<const float> input, std::span<const float> gradient,
                                            const Pass& pass) {
  input_->write(input);
  gradient_->write(gradient);
  for (int i = 0; i < spec_.micro_batches; ++i) {
    const SampleRange samples = micro_batch(spec_, i);
    const auto rows = [&](Tensor& tensor) {
      const std::size_t each = tensor.shape().sample_size();
      return tensor.span().subspan(static_cast<std::size_t>(samples.first) * each,
                                   static_cast<std::size_t>(samples.count) * each);
    };
    shard_->forward(*input_, pass, samples).read(samples, rows(output_));
    const DeviceTensor* part = shard_->backward_input(*gradient_, samples);
    if (part != nullptr) part->read(samples, rows(input_gradient_));
  }
  shard_->backward_filters();
}

}  // namespace convoy
