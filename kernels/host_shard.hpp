// A shard between host tensors: what a slave, and a master that computes a share itself, hold for each stage.
#pragma once

#include <memory>
#include <span>

#include "kernels/device.hpp"

namespace convoy {

class HostShard {
 public:
  /// Compiles the shard and all buffers that moving its tensors takes.
  HostShard(Device& device, const ShardSpec& spec);

  const ShardSpec& spec() const { return spec_; }
  Shape input_shape() const { return input_->shape(); }
  Shape output_shape() const { return output_.shape(); }

  /// NCHW input (batch, channels, height, width) to the shard's output; the result holds until the next call.
  const Tensor& forward(std::span<const float> input, const Pass& pass);
  /// NCHW gradient by the output to this shard's part of the gradient by the input; null without spec().input_gradient.
  const Tensor* backward(std::span<const float> gradient);
  /// Output of the last forward.
  const Tensor& output() const { return output_; }
  /// The shard itself, for update and state.
  Shard& shard() { return *shard_; }

 private:
  ShardSpec spec_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<DeviceTensor> input_;
  std::unique_ptr<DeviceTensor> gradient_;
  Tensor output_;
  Tensor input_gradient_;
};

}  // namespace convoy
