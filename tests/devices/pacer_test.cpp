// Tests that time is spent as it is asked for.

#include "devices/pacer.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "core/stopwatch.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

TEST(TimesOfSleeps, PassInSleepsAlone) {
  const auto before = Clock::now();
  {
    const TimeOfSleeps known;
    const Stopwatch watch;
    EXPECT_EQ(watch.seconds(), 0.0);
    Pacer pacer;
    pacer.spend(3600.0);
    EXPECT_EQ(watch.seconds(), 3600.0);
    {
      const TimeOfSleeps inner;
      Clock::sleep_for(1h);
    }
    EXPECT_EQ(watch.seconds(), 3600.0) << "the inner clock began at the outer time, and ends with its scope";
    EXPECT_FALSE(Clock::is_real());
  }
  EXPECT_TRUE(Clock::is_real());
  EXPECT_LT(Clock::now(), before + 1h);
}

/// A thread that has waited cannot have begun its next computation before.
TEST(Pacers, SpendAllOfTheTimeAfterAWait) {
  Pacer pacer;
  pacer.spend(0.001);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(2ms);
    const Stopwatch watch;
    pacer.spend(0.003);
    EXPECT_GE(watch.seconds(), 0.003);
  }
}

/// Where the thread goes on at once, its own work is part of the computation, so that nothing adds up.
TEST(Pacers, CountTheThreadsOwnWorkAsPartOfTheComputation) {
  double least = 1.0;
  // Another program may take the core in one attempt, but hardly in all of them.
  for (int attempt = 0; attempt < 50 && least > 0.0055; ++attempt) {
    Pacer pacer;
    pacer.spend(0.001);
    const Stopwatch whole;
    while (whole.seconds() < 0.004) {
    }
    pacer.spend(0.005);
    least = std::min(least, whole.seconds());
  }
  EXPECT_GE(least, 0.0049);
  EXPECT_LT(least, 0.0085) << "4 ms of work are part of 5 ms, instead of coming before them";
}

}  // namespace
}  // namespace convoy
