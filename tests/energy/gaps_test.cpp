// Gaps between readings: what counts as one, and what it means for joules and their interval.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/energy/filling.hpp"

namespace convoy::energy {
namespace {

/// A time of more than five refreshes is a gap, and one of fewer is not, however often either comes.
TEST(Record, GapsAreCounted) {
  Filling filling(sensor());
  const auto power = [](double t) { return 5 + 0.01 * t; };
  for (int i = 0; i < 3; ++i) {
    filling.read_values(10, 0.1, power);
    filling.time.pass(0.3);  // 0.4 s up to the next reading
    filling.read_values(10, 0.1, power);
    filling.time.pass(0.9);
  }
  filling.read_values(10, 0.1, power);
  const Measurement span = filling.between(1, 72);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_EQ(span.gaps, 3);
  EXPECT_NEAR(span.gap_seconds, 3, 1e-6);
  EXPECT_NEAR(span.longest_gap, 1, 1e-6);
  EXPECT_EQ(filling.between(1, 19).gaps, 0);
  // The half of a gap that lies in a span.
  EXPECT_NEAR(filling.between(1, 20.7).gap_seconds, 0.4, 1e-6);
}

/// A sensor that is read much more often than it changes loses nothing by a pause within its refresh.
TEST(Record, GapsAreThoseOfTheRefresh) {
  Filling filling(sensor());
  const auto power = [](double t) { return 5 + 0.01 * std::floor(t / 2); };
  filling.read_values(100, 0.1, power);
  filling.time.pass(5);
  filling.read_values(200, 0.1, power);
  const Measurement span = filling.between(1, 300);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.longest_gap, 5.1, 1e-6);
  EXPECT_EQ(span.gaps, 0);
}

/// A machine may work in a gap and rest at both of its ends, and the interval must hold the joules all the same.
TEST(Record, GapInPowerWidensTheIntervalByAllThatTheMachineMayHaveTaken) {
  const auto watts = [](double t) { return (std::fmod(t, 20) < 10 ? 20 : 100) + 0.01 * std::sin(40 * t); };
  Filling filling(sensor());
  filling.read_values(89.5, 0.1, watts);  // it works from 90 s to 100 s
  filling.time.pass(10.9);
  filling.read_values(59.5, 0.1, watts);
  const Measurement span = filling.between(20, 140);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_EQ(span.gaps, 1);
  const double truth = 6 * 10 * 20 + 6 * 10 * 100;
  EXPECT_LT(span.energy->value, truth - 700) << "the trapezoid rule sees nothing of the work";
  EXPECT_NEAR(span.energy->value, truth, span.energy->error);
}

/// A counter goes on in a gap: its joules stay right and its interval narrow, but a power beside it is no second
/// source.
TEST(Record, GapInACounterKeepsItsJoules) {
  const auto joules = [](double t) { return 20 * t + 80 * std::clamp(t - 30, 0.0, 10.0); };  // 100 W in the gap
  Filling filling(counter());
  const auto both = [&](double t) { return Reading{.values = {joules(t)}, .check = 20 + 0.01 * std::sin(40 * t)}; };
  filling.read(30, 0.1, both);
  filling.time.pass(9.9);
  filling.read(30, 0.1, both);
  const Measurement span = filling.between(5, 65);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_EQ(span.gaps, 1);
  EXPECT_NEAR(span.energy->value, 20 * 60 + 80 * 10, 1e-6);
  EXPECT_FALSE(span.compared);
}

/// However many readings are thinned out.
TEST(Record, OldGapsAndWrapsAreNotForgotten) {
  Filling filling(counter(1000));
  const auto value = [](double t) { return std::fmod(7 * t, 1000); };
  for (int i = 0; i < 50; ++i) {
    filling.read_values(100, 0.1, value);
    filling.time.pass(2);
  }
  filling.read_values(5000, 0.1, value);
  const Measurement span = filling.between(1, 10099);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_EQ(span.gaps, 50);
  EXPECT_NEAR(span.gap_seconds, 105, 1e-3);
  EXPECT_EQ(span.wraps, 70);
}

}  // namespace
}  // namespace convoy::energy
