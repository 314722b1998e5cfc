// A range of the channels of a batch's tensor, on the host.
#pragma once

#include <algorithm>
#include <span>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// Channels `first` to first + values.shape().c - 1 of a tensor, for all samples of the batch.
struct Slab {
  Tensor values;
  int first = 0;

  FilterRange channels() const { return {first, values.shape().c}; }
  /// The number of values of one channel of one sample.
  std::size_t map() const {
    return static_cast<std::size_t>(values.shape().h) * static_cast<std::size_t>(values.shape().w);
  }
  /// The values of some channels of a sample; they are contiguous.
  std::span<float> run(int sample, FilterRange channels) {
    return values.sample(sample).subspan(static_cast<std::size_t>(channels.first - first) * map(),
                                         static_cast<std::size_t>(channels.count) * map());
  }
  std::span<const float> run(int sample, FilterRange channels) const {
    return values.sample(sample).subspan(static_cast<std::size_t>(channels.first - first) * map(),
                                         static_cast<std::size_t>(channels.count) * map());
  }
  /// Visits `count` values, from index `begin` on, of the box of these samples and channels in NCHW order. Calls
  /// visit() with each contiguous run of values.
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
