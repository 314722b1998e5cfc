// Time that is spent instead of computing, for measurements on machines that are only described.
#pragma once

#include <functional>

#include "core/clock.hpp"

namespace convoy {

/// Takes as many seconds as a computation is known to take.
using Spend = std::function<void(double seconds)>;

/// Spends time to within some microseconds, and leaves the processor to others for nearly all of it. A computation
/// begins when the calling thread asks for it. Where the thread has not waited for anything since the computation
/// before, it begins at the end of that one: the thread's own work in between counts as part of the computations, as in
/// the timings of real devices, and a late wake-up does not add up. One thread may use a pacer.
class Pacer {
 public:
  void spend(double seconds);
  /// When the last computation ended, as it was to be.
  Clock::time_point ended() const { return until_; }

 private:
  Clock::time_point until_;  ///< end of the last computation
  long waits_before_ = -1;   ///< how often the thread had waited by then
};

}  // namespace convoy
