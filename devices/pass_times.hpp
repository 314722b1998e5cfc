// What passes take that were timed several times, on a processor that may not be theirs alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/stopwatch.hpp"

namespace convoy {

/// Seconds that passed, and of them those that one thread computed.
struct Times {
  double passed = 0.0;
  double computed = 0.0;
  void operator+=(const Times& other) {
    passed += other.passed;
    computed += other.computed;
  }
  double slowdown() const { return passed / std::max(1e-6, computed); }
};

/// Of the calling thread.
template <typename Work>
Times time_of(const Work& work) {
  const Stopwatch watch;
  const double before = thread_seconds();
  work();
  // In this order: Linux makes a thread that has used up its quota wait on the way back from a system call, such as this.
  const double computed = thread_seconds() - before;
  return {watch.seconds(), computed};
}

/// Rounds of passes, and of what the same thread did between them.
class PassTimes {
 public:
  /// `threads`: that compute a pass.
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

  /// Whether this thread computes the passes, rather than a device that it waits for, and others or a quota take a part of
  /// its processor.
  bool shared() const {
    constexpr double kShared = 1.1;
    constexpr double kWaits = 1.5;
    // In passes, one of several threads waits for the others, too.
    const double slowdown = threads_ == 1 ? whole_.slowdown() : between_.slowdown();
    return slowdown > kShared && median(slowdowns_) < kWaits * between_.slowdown();
  }
  /// The median of a pass. On a shared processor a short pass falls between what others take, or not: what it computes is
  /// steadier, and all of them together say how many seconds pass for each of those.
  double typical(std::size_t pass) const {
    return shared() ? median(computed_[pass]) * whole_.slowdown() : median(passed_[pass]);
  }

 private:
  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
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
