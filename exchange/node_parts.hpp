// What a node is made of. For the sources of Node alone.
#pragma once

#include <algorithm>

#include "core/stage.hpp"
#include "exchange/node.hpp"

namespace convoy {

struct Node::Piece {
  FilterRange filters;
  std::vector<Read> reads;
  std::unique_ptr<Shard> shard;
  std::vector<std::unique_ptr<DeviceTensor>> added;  ///< what it adds
  std::unique_ptr<DeviceTensor> gradient;            ///< by its maps, where it goes backward here
  std::optional<ShardState> fresh;                   ///< of others' filters: arrived, and not yet taken
};

/// What stages at this node read, on its device: those that read the same share it.
struct Node::Input {
  Sources from;
  std::unique_ptr<DeviceTensor> maps;
  std::vector<bool> written;  ///< in the step at hand, by micro-batch
};

/// Channels first .. first + values.shape().c - 1 of a tensor.
struct Node::Slab {
  Tensor values;
  int first = 0;

  FilterRange channels() const { return {first, values.shape().c}; }
  std::size_t map() const {
    return static_cast<std::size_t>(values.shape().h) * static_cast<std::size_t>(values.shape().w);
  }
  std::span<float> run(int sample, FilterRange channels) {
    return values.sample(sample).subspan(static_cast<std::size_t>(channels.first - first) * map(),
                                         static_cast<std::size_t>(channels.count) * map());
  }
  /// Of the box of samples and channels in the order of NCHW, values begin .. begin + count - 1: calls visit(values that
  /// lie together) for all of them in turn.
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

struct Node::Flight {
  std::size_t received = 0;  ///< values
  std::deque<Bytes> held;    ///< of a part, until its turn; of weights
};

}  // namespace convoy
