// Measuring spans of time.
#pragma once

#include <chrono>
#include <ctime>

namespace convoy {

inline double seconds_on(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
/// Seconds that processors have worked for this process, and for this thread.
inline double process_seconds() { return seconds_on(CLOCK_PROCESS_CPUTIME_ID); }
inline double thread_seconds() { return seconds_on(CLOCK_THREAD_CPUTIME_ID); }

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
