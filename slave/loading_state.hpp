// The state of filters that the master has a slave load, while its values arrive.
#pragma once

#include <vector>

#include "exchange/node.hpp"
#include "slave/state_cache.hpp"
#include "wire/link.hpp"
#include "wire/stream.hpp"

namespace convoy {

class LoadingState {
 public:
  /// Reads the blocks of the state that the cache has; the master must send the others. `of` is the stage of the
  /// trunk that `task` names. Throws Error unless `task` has a hash for each block.
  LoadingState(const wire::Load& task, const Stage& of, StateCache& cache);

  NumberType type() const { return task_.type; }
  /// The blocks that the cache lacks.
  const wire::Wanted& wanted() const { return wanted_; }
  /// Copies the values of a Piece. Throws Error if other values are due.
  void add(const wire::Piece& piece, const wire::Payload& payload) { reader_.add(piece, payload); }
  /// Whether all values have arrived.
  bool complete() const { return reader_.complete(); }
  /// Returns the complete state, with moments if these travel; the LoadingState is empty afterwards. Keeps the blocks
  /// that have arrived in the cache, and with `on_disk` also in its folder. Throws Error if a block's hash is not the
  /// hash that the master announced.
  FilterState finish(StateCache& cache, bool on_disk);

 private:
  wire::Load task_;
  std::vector<FilterRange> blocks_;
  std::vector<ShardState> parts_;  ///< the state of each block
  FilterState state_;              ///< the state of all filters, filled by finish()
  wire::Wanted wanted_;
  wire::ValueReader reader_;  ///< writes into the parts of the wanted blocks
};

}  // namespace convoy
