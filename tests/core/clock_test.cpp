// Tests of the program's clock.

#include "core/clock.hpp"

#include <gtest/gtest.h>

#include "core/stopwatch.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

/// Its time passes only in sleeps.
class StandingTime : public TimeSource {
 public:
  TimePoint now() override { return time_; }
  void sleep_until(TimePoint time) override { time_ = time; }

 private:
  TimePoint time_{1h};
};

TEST(Clocks, AThreadTakesItsTimeFromTheSourceThatItWasGiven) {
  StandingTime source;
  bool other_is_real = false;
  Clock::use(&source);
  EXPECT_FALSE(Clock::is_real());
  const Stopwatch watch;
  const double computed = process_seconds();
  EXPECT_EQ(watch.seconds(), 0.0);
  Clock::sleep_for(30min);  // which does not take half an hour
  std::thread([&] { other_is_real = Clock::is_real(); }).join();
  EXPECT_EQ(Clock::now(), Clock::time_point(90min));
  EXPECT_EQ(watch.seconds(), 1800.0);
  EXPECT_EQ(process_seconds() - computed, 1800.0);
  Clock::use(nullptr);
  EXPECT_TRUE(other_is_real);
  EXPECT_TRUE(Clock::is_real());
  const auto before = std::chrono::steady_clock::now();
  EXPECT_GE(Clock::now(), before);
}

}  // namespace
}  // namespace convoy
