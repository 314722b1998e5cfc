// Transfers the state of shards between the master and its slaves.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/node.hpp"
#include "master/cluster/crew.hpp"
#include "wire/stream.hpp"

namespace convoy {

/// The state of some filters while its values arrive.
struct ComingState {
  FilterState of;
  std::optional<wire::ValueReader> reader;
  bool complete() const { return !reader || reader->complete(); }
};

class StateTransfer {
 public:
  /// Serves the current members of the crew. Crew and trunk must outlive the transfer.
  StateTransfer(Crew& crew, const std::vector<Stage>& trunk);

  /// Asks a slave for what the request says of filters of its shard. A slave answers requests in their order.
  std::shared_ptr<ComingState> ask(std::size_t slave, const wire::Snapshot& request);
  bool awaits(std::size_t slave) const { return !coming_[slave].empty(); }
  bool awaits_any() const;
  /// Takes a Piece of the oldest state that the slave still owes. Returns whether this state is complete now. Throws
  /// Error if the Piece does not fit.
  bool take(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload);

  /// Offers a slave the state of filters as the hashes of its blocks. The slave answers with the blocks that it lacks
  /// (Wanted), and with Done when it has them. The values and moments of trained parameters travel in `type`, which
  /// must not round them. A slave that is given a state without moments keeps the moments that it has.
  void give(std::size_t slave, FilterState state, NumberType type);
  /// Sends the blocks that a slave lacks of the oldest offer, and returns their bytes. Throws Error if the message does
  /// not answer this offer.
  std::size_t take_wanted(std::size_t slave, const wire::Wanted& wanted);
  /// Returns how many offers to a slave still await its Wanted.
  int unanswered_offers(std::size_t slave) const { return static_cast<int>(offers_[slave].size()); }

 private:
  struct Offer {
    FilterState state;
    NumberType type = NumberType::fp32;
  };

  void offer(std::size_t slave);

  Crew& crew_;
  const std::vector<Stage>& trunk_;
  std::vector<std::deque<std::shared_ptr<ComingState>>> coming_;  ///< states due from each slave, in order of requests
  std::vector<std::deque<Offer>> offers_;                         ///< offers to each slave; only the first was sent
};

}  // namespace convoy
