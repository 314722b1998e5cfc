// Some channels of some samples of a batch's tensor, on the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// Returns where samples of a micro-batch lie among the samples of a slab with this box.
inline SampleRange place(const Box& box, int micro_batch, SampleRange samples) {
  return {micro_batch * box.samples.count + samples.first - box.samples.first, samples.count};
}

/// The part of a batch's tensor in a box: some channels, and the same samples of every micro-batch.
template <class T>
struct BasicSlab {
  BasicTensor<T> values;  ///< the samples of the first micro-batch, then those of the second, and so on
  Box box;

  FilterRange channels() const { return box.channels; }
  /// Returns where samples of a micro-batch lie among the samples of `values`.
  SampleRange place(int micro_batch, SampleRange samples) const { return convoy::place(box, micro_batch, samples); }
  /// The number of values of one channel of one sample.
  std::size_t map() const {
    return static_cast<std::size_t>(values.shape().h) * static_cast<std::size_t>(values.shape().w);
  }
  /// The values of some channels of a sample, counted among the samples of `values`; they are contiguous.
  std::span<T> run(int sample, FilterRange channels) {
    return values.sample(sample).subspan(static_cast<std::size_t>(channels.first - box.channels.first) * map(),
                                         static_cast<std::size_t>(channels.count) * map());
  }
  std::span<const T> run(int sample, FilterRange channels) const {
    return values.sample(sample).subspan(static_cast<std::size_t>(channels.first - box.channels.first) * map(),
                                         static_cast<std::size_t>(channels.count) * map());
  }
  /// Visits `count` values, from index `begin` on, of these samples of `values` and channels in NCHW order. Calls
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

using Slab = BasicSlab<float>;
using PixelSlab = BasicSlab<std::uint8_t>;

}  // namespace convoy
