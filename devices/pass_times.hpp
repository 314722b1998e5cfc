// Statistics of passes that were timed several times, on a processor that other programs may share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/stopwatch.hpp"

namespace convoy {

/// Seconds that passed, and the seconds in which one thread computed.
struct Times {
  double passed = 0.0;
  double computed = 0.0;
  void operator+=(const Times& other) {
    passed += other.passed;
    computed += other.computed;
  }
  double slowdown() const { return passed / std::max(1e-6, computed); }
};

/// Times `work` on the calling thread.
template <typename Work>
Times time_of(const Work& work) {
  const Stopwatch watch;
  const double before = thread_seconds();
  work();
  // The order matters: Linux makes a thread that has used up its quota wait on return from a system call, such as this
  // one.
  const double computed = thread_seconds() - before;
  return {watch.seconds(), computed};
}

/// Times of rounds of passes, and of the same thread's work between them.
class PassTimes {
 public:
  /// `threads` is the number of threads that compute a pass.
  PassTimes(std::size_t passes, int threads) : threads_(threads), passed_(passes), computed_(passes) {}

  void add(std::size_t pass, const Times& times) {
    passed_[pass].push_back(times.passed);
    computed_[pass].push_back(times.computed);
    slowdowns_.push_back(times.slowdown());
    whole_ += times;
  }
  void add_between(const Times& times) {
    between_ += times;
    whole_ += times;
  }

  /// Returns whether this thread computes the passes itself, instead of waiting for a device, while other programs or a
  /// quota take part of its processor.
  bool shared() const {
    constexpr double kShared = 1.1;
    constexpr double kWaits = 1.5;
    // With several threads a pass also includes waiting for the other threads.
    const double slowdown = threads_ == 1 ? whole_.slowdown() : between_.slowdown();
    return slowdown > kShared && median(slowdowns_) < kWaits * between_.slowdown();
  }
  /// Returns the typical seconds of a pass. This is the median, except on a shared processor: there a short pass may or
  /// may not be interrupted, so the more stable computing time is scaled by the slowdown of all passes together.
  double typical(std::size_t pass) const {
    return shared() ? median(computed_[pass]) * whole_.slowdown() : median(passed_[pass]);
  }

 private:
  /// Of an even number of values, the lower of both in the middle.
  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  int threads_;
  std::vector<std::vector<double>> passed_;    ///< by pass
  std::vector<std::vector<double>> computed_;  ///< by pass
  std::vector<double> slowdowns_;              ///< of all passes
  Times between_;
  Times whole_;
};

}  // namespace convoy
