// The state of shards on its way between the master and its slaves.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/node.hpp"
#include "master/cluster/roster.hpp"
#include "wire/stream.hpp"

namespace convoy {

/// The state of some filters, of which values may still have to come.
struct ComingState {
  FilterState of;
  std::optional<wire::ValueReader> reader;
  bool complete() const { return !reader || reader->complete(); }
};

class StateTransfer {
 public:
  /// For the slaves that the roster has now; it must outlive the transfer, as must the trunk's stages.
  StateTransfer(Roster& roster, const std::vector<Stage>& trunk);

  /// Asks a slave for the state of filters of its shard. A slave answers requests in their order.
  std::shared_ptr<ComingState> ask(std::size_t slave, std::size_t stage, FilterRange filters);
  bool awaits(std::size_t slave) const { return !coming_[slave].empty(); }
  bool awaits_any() const;
  /// Takes a piece of the state that the slave was asked for first, and returns whether that state is complete. Throws
  /// Error where the piece does not fit.
  bool take(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload);

  /// Offers a slave the state of filters, by what the state contains; the slave names the blocks that it lacks, and answers
  /// Done when it has them.
  void give(std::size_t slave, FilterState state);
  /// Sends the blocks that a slave lacks of what it was offered. Throws Error where it was offered no such thing.
  void take_wanted(std::size_t slave, const wire::Wanted& wanted);

 private:
  void offer(std::size_t slave);

  Roster& roster_;
  const std::vector<Stage>& trunk_;
  std::vector<std::deque<std::shared_ptr<ComingState>>> coming_;  ///< from each slave, in the order of the requests
  std::vector<std::deque<FilterState>> offers_;                   ///< to each slave; the first has been sent
};

}  // namespace convoy
