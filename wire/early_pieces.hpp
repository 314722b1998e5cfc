// Pieces of the next step, from members that have begun it before this one.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "core/error.hpp"
#include "wire/link.hpp"
#include "wire/message.hpp"

namespace convoy::wire {

class EarlyPieces {
 public:
  /// Keeps a Piece from node `from`. Throws Error where all that are kept have more than `most` bytes.
  void add(int from, const Piece& piece, const Payload& payload, std::size_t most) {
    bytes_ += payload.size();
    if (bytes_ > most) fail("more Pieces of the next step came than the plan sends");
    kept_.push_back({from, piece, payload});
  }
  /// Calls take(from, piece, payload) with each Piece, in the order in which they came, and forgets them.
  template <class Take>
  void give(const Take& take) {
    bytes_ = 0;
    for (const Kept& each : std::exchange(kept_, {})) take(each.from, each.piece, each.payload);
  }
  void clear() {
    bytes_ = 0;
    kept_.clear();
  }

 private:
  struct Kept {
    int from;
    Piece piece;
    Payload payload;
  };
  std::deque<Kept> kept_;
  std::size_t bytes_ = 0;
};

}  // namespace convoy::wire
