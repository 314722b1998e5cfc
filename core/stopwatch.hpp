// Measuring spans of time.
#pragma once

#include <chrono>

namespace convoy {

class Stopwatch {
 public:
  /// Seconds since the start or the last restart.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// The same, and starts anew.
  double restart() {
    const double passed = seconds();
    start_ = Clock::now();
    return passed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace convoy
