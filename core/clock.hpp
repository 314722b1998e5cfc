// The program's clock: the system's monotonic clock, unless a thread was given another source of time, as a simulation
// does.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace convoy {

/// A source of time other than the system.
class TimeSource {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~TimeSource() = default;
  virtual TimePoint now() = 0;
  virtual void sleep_until(TimePoint time) = 0;
};

/// Has the interface of std::chrono::steady_clock, and its durations and times.
class Clock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = TimeSource::TimePoint;
  static constexpr bool is_steady = true;

  /// Returns a duration of so many seconds.
  static duration seconds(double count) {
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>(count));
  }

  static time_point now() { return source_ == nullptr ? std::chrono::steady_clock::now() : source_->now(); }
  static void sleep_for(duration time) {
    if (source_ == nullptr) return std::this_thread::sleep_for(time);
    source_->sleep_until(source_->now() + time);
  }

  /// Lets the calling thread take its time from `source`, or from the system if `source` is null. The source must
  /// outlive its use.
  static void use(TimeSource* source) { source_ = source; }
  /// The source of the calling thread; null for the system.
  static TimeSource* source() { return source_; }
  /// Whether the calling thread takes its time from the system.
  static bool is_real() { return source_ == nullptr; }

 private:
  static inline constinit thread_local TimeSource* source_ = nullptr;
};

/// While an object of this class lives, time passes for its thread in sleeps alone, and these return at once. A device
/// that sleeps for as long as it would compute is timed in this way.
class TimeOfSleeps final : public TimeSource {
 public:
  TimeOfSleeps() : before_(Clock::source()), now_(Clock::now()) { Clock::use(this); }
  ~TimeOfSleeps() override { Clock::use(before_); }
  TimeOfSleeps(const TimeOfSleeps&) = delete;
  TimeOfSleeps& operator=(const TimeOfSleeps&) = delete;

  TimePoint now() override { return now_; }
  void sleep_until(TimePoint time) override { now_ = std::max(now_, time); }

 private:
  TimeSource* before_;
  TimePoint now_;
};

}  // namespace convoy
