// Time measurement.
#pragma once

#include <chrono>
#include <ctime>

#include "core/clock.hpp"

namespace convoy {

/// Returns the reading of a processor's clock in seconds. A thread that does not take its time from the system is taken
/// to compute all the time.
inline double seconds_on(clockid_t clock) {
  if (!Clock::is_real()) return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
/// Return the processor time, in seconds, used by this process and by this thread.
inline double process_seconds() { return seconds_on(CLOCK_PROCESS_CPUTIME_ID); }
inline double thread_seconds() { return seconds_on(CLOCK_THREAD_CPUTIME_ID); }

/// Measures elapsed time on the program's clock.
class Stopwatch {
 public:
  /// Returns the seconds since construction or the last restart.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// Returns the seconds since construction or the last restart, and restarts.
  double restart() {
    const double passed = seconds();
    start_ = Clock::now();
    return passed;
  }

 private:
  Clock::time_point start_ = Clock::now();
};

}  // namespace convoy
