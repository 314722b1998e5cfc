// Channels of a tensor of a batch, on the host.
#pragma once

#include <algorithm>
#include <span>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// Channels first .. first + values.shape().c - 1 of a tensor, for all samples of the batch.
struct Slab {
  Tensor values;
  int first = 0;

  FilterRange channels() const { return {first, values.shape().c}; }
  /// Values of one channel of one sample.
  std::size_t map() const {
    return static_cast<std::size_t>(values.shape().h) * static_cast<std::size_t>(values.shape().w);
  }
  /// These channels of a sample; they lie together.
  std::span<float> run(int sample, FilterRange channels) {
    return values.sample(sample).subspan(static_cast<std::size_t>(channels.first - first) * map(),
                                         static_cast<std::size_t>(channels.count) * map());
  }
  /// Takes the box of samples and channels in NCHW order and calls visit(values that lie together) for its values begin ..
  /// begin + count - 1, in that order.
  template <class Visit>
  void for_each_run(SampleRange samples, FilterRange channels, std::size_t begin, std::size_t count, Visit visit) {
    const std::size_t length = static_cast<std::size_t>(channels.count) * map();
    while (count > 0) {
      const std::size_t within = begin % length;
      const std::size_t step = std::min(count, length - within);
      visit(run(samples.first + static_cast<int>(begin / length), channels).subspan(within, step));
      begin += step;
      count -= step;
    }
  }
};

}  // namespace convoy
