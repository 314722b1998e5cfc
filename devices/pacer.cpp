#include "devices/pacer.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <ctime>

namespace convoy {
namespace {

using namespace std::chrono_literals;

/// Linux wakes a thread this much too late, at the most, where a core is free.
constexpr auto kLatestWakeUp = 30us;

/// How often the calling thread has given up its core to wait for something.
long waits() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

/// By default Linux may wake a thread 50 us late, to wake several at once.
void ask_for_exact_timers() {
  thread_local const bool asked = prctl(PR_SET_TIMERSLACK, 1UL) == 0;
  static_cast<void>(asked);
}

/// The last microseconds are waited out in a loop.
void wait_until(Clock::time_point time) {
  ask_for_exact_timers();
  const auto early = (time - kLatestWakeUp).time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(early);
  const timespec moment{.tv_sec = seconds.count(),
                        .tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(early - seconds).count()};
  if (Clock::now() < time - kLatestWakeUp) {
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, nullptr) == EINTR) {
    }
  }
  while (Clock::now() < time) {
  }
}

}  // namespace

void Pacer::spend(double seconds) {
  const auto time = Clock::seconds(seconds);
  if (!Clock::is_real()) return Clock::sleep_for(time);
  const bool went_on = waits() == waits_before_;
  until_ = (went_on ? until_ : Clock::now()) + time;
  wait_until(until_);
  waits_before_ = waits();
}

}  // namespace convoy
