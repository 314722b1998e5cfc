// A queue for transfers of which one is to run at a time, so that each has the whole link. (Slampa, Estimating the
// speedup of parallel training of neural networks, Brno 2017, proposes a semaphore with a queue for each direction.)
#pragma once

#include <algorithm>
#include <deque>

namespace convoy {

/// Whoever has asked first has the turn, until it ends it.
template <class Who>
class Turns {
 public:
  /// Asks for a turn, unless `who` has asked already. Returns whether it is the turn of `who`.
  bool take(const Who& who) {
    if (std::ranges::find(queue_, &who) == queue_.end()) queue_.push_back(&who);
    return queue_.front() == &who;
  }
  /// Ends the turn of `who`, or its wait for one; without either, it does nothing.
  void end(const Who& who) { std::erase(queue_, &who); }

 private:
  std::deque<const Who*> queue_;
};

}  // namespace convoy
