#include "kernels/host_shard.hpp"

namespace convoy {

HostShard::HostShard(Device& device, const ShardSpec& spec)
    : spec_(spec),
      shard_(device.compile(spec)),
      input_(shard_->make_input()),
      gradient_(shard_->make_output_gradient()),
      output_(convoy::output_shape(spec.stage, spec.batch, spec.filters.count)),
      input_gradient_(spec.input_gradient ? Tensor(convoy::input_shape(spec.stage, spec.batch)) : Tensor()) {}

const Tensor& HostShard::forward(std::span<const float> input, const Pass& pass) {
  input_->write(input);
  shard_->forward(*input_, pass).read(output_.span());
  return output_;
}

const Tensor* HostShard::backward(std::span<const float> gradient) {
  gradient_->write(gradient);
  const DeviceTensor* result = shard_->backward(*gradient_);
  if (result == nullptr) return nullptr;
  result->read(input_gradient_.span());
  return &input_gradient_;
}

}  // namespace convoy
