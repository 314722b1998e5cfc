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
  bool went_on = false;
  // The system may have the thread wait for a page of memory, but not each time.
  for (int attempt = 0; attempt < 20 && !went_on; ++attempt) {
    Pacer pacer;
    pacer.spend(0.001);
    const auto first = pacer.ended();
    while (Clock::now() < first + 500us) {
    }
    pacer.spend(0.001);
    went_on = pacer.ended() == first + 1ms;
  }
  EXPECT_TRUE(went_on);
}

TEST(Pacers, BeginAfterAWait) {
  Pacer pacer;
  pacer.spend(0.001);
  const auto first = pacer.ended();
  std::this_thread::sleep_for(2ms);
  pacer.spend(0.001);
  EXPECT_GE(pacer.ended(), first + 3ms);
}

}  // namespace
}  // namespace convoy
