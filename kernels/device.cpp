#include "kernels/device.hpp"

#include <algorithm>

namespace convoy {

/// Goes through host memory; devices override it where they can copy directly.
void DeviceTensor::take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                                 SampleRange samples) {
  Tensor source({samples.count, from.shape().c, shape().h, shape().w});
  Tensor target({samples.count, shape().c, shape().h, shape().w});
  from.read(samples, source.span());
  read(samples, target.span());
  const std::size_t map = static_cast<std::size_t>(shape().h) * static_cast<std::size_t>(shape().w);
  const std::size_t count = map * static_cast<std::size_t>(channels.count);
  for (int n = 0; n < samples.count; ++n) {
    const float* x = &source.at(n, channels.first);
    float* y = &target.at(n, first);
    for (std::size_t i = 0; i < count; ++i) y[i] = added ? y[i] + x[i] : x[i];
  }
  write(samples, target.span());
}

ShardState gradient_state(const Shard& shard) {
  ShardState state = shard.state();
  std::vector<Tensor> gradients = shard.gradients();
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    state.parameters[p].moments.clear();
    if (gradients[p].size() > 0) state.parameters[p].value = std::move(gradients[p]);
  }
  return state;
}

double gradient_squares(const Shard& shard) {
  double sum = 0.0;
  for (const Tensor& gradient : shard.gradients()) sum += sum_of_squares(gradient.span());
  return sum;
}

}  // namespace convoy
