// The states of filters that one slave sends to others, and receives from them, when shares move.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "exchange/node.hpp"
#include "wire/link.hpp"
#include "wire/stream.hpp"

namespace convoy {

/// One slave's part in the moves of a plan.
class MovingStates {
 public:
  /// Makes the part of a slave in a plan in which no state moves.
  MovingStates() = default;
  /// Makes the part of node `self` in `moves`. `kept` are the states of its former shards. Throws Error if `kept` lacks
  /// a state that the node has to send.
  MovingStates(const std::vector<wire::StateMove>& moves, int self, const std::vector<Stage>& trunk,
               const std::vector<FilterState>& kept);

  /// Sends other slaves the states that they take over.
  void send(wire::ClientLink& link);
  /// Takes a Piece of a state from node `from`. Returns the state when it is complete. Throws Error if the Piece is not
  /// due.
  std::optional<FilterState> take(int from, const wire::Piece& piece, const wire::Payload& payload);
  /// Whether all states have arrived.
  bool complete() const { return coming_.empty(); }

 private:
  struct Leaving {
    int to = 0;
    FilterState state;
  };
  struct Coming {
    FilterState state;
    wire::ValueReader reader;  ///< writes into `state`
  };

  std::vector<Leaving> leaving_;
  std::map<int, std::deque<Coming>> coming_;  ///< by sender, in the order of the moves
};

}  // namespace convoy
