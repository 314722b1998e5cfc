// The state of filters on its way between slaves when shares move, as one of them sees it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "exchange/node.hpp"
#include "wire/link.hpp"
#include "wire/stream.hpp"

namespace convoy {

class MovingStates {
 public:
  /// Nothing moves.
  MovingStates() = default;
  /// Node `self`'s part in moves of the trunk's filters; `kept` is the state of its shards before. Throws Error where that
  /// lacks what others are to get.
  MovingStates(const std::vector<wire::StateMove>& moves, int self, const std::vector<Stage>& trunk,
               const std::vector<FilterState>& kept);

  /// Gives the others what they take over.
  void send(wire::ClientLink& link);
  /// A Piece of a state from another; the state when all of it is here. Throws Error where nothing of the kind is due.
  std::optional<FilterState> take(int from, const wire::Piece& piece, const wire::Payload& payload);
  /// Nothing is to come any more.
  bool complete() const { return coming_.empty(); }

 private:
  struct Leaving {
    int to = 0;
    FilterState state;
  };
  struct Coming {
    FilterState state;
    wire::ValueReader reader;  ///< into that
  };

  std::vector<Leaving> leaving_;
  std::map<int, std::deque<Coming>> coming_;  ///< from each, in the order of the moves
};

}  // namespace convoy
