// Joules from readings: the right figure, or the right refusal.
#include "energy/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/energy/filling.hpp"

namespace convoy::energy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Record, CounterIsTakenByDifference) {
  Filling filling(counter());
  filling.read_values(30, 0.1, [](double t) { return 1000 + 7 * t; });
  const Measurement span = filling.between(5.03, 25.08);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, 7 * 20.05, 1e-6);
  EXPECT_NEAR(span.refresh, 0.1, 0.001);
  EXPECT_NEAR(span.energy->error, 0.7, 0.01);  // one step
  EXPECT_NEAR(span.watts(), 7, 1e-6);
  EXPECT_EQ(span.wraps, 0);
  EXPECT_EQ(span.missed, 0);
  EXPECT_FALSE(span.compared);
}

TEST(Record, WrapsAreAdded) {
  Filling filling(counter(50));
  filling.read_values(30, 0.1, [](double t) { return std::fmod(40 + 7 * t, 50); });
  const Measurement span = filling.between(5, 25);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, 140, 1e-6);
  EXPECT_EQ(span.wraps, 3);
}

/// Each package wraps by itself.
TEST(Record, ChannelsWrapByThemselves) {
  MeterInfo info = counter(50);
  info.channels = {{"a", 50}, {"b", 80}};
  Filling filling(info);
  filling.read(30, 0.1, [](double t) { return Reading{.values = {std::fmod(7 * t, 50), std::fmod(11 * t, 80)}}; });
  const Measurement span = filling.between(5, 25);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, 18 * 20, 1e-6);
}

TEST(Record, DoubleWrapIsRefused) {
  MeterInfo info = counter(50);
  info.longest_gap = 5;
  Filling filling(info);
  const auto value = [](double t) { return std::fmod(7 * t, 50); };
  filling.read_values(20, 0.1, value);
  filling.time.pass(15);  // 105 J: two wraps, of which one would be seen
  filling.read_values(20, 0.1, value);
  EXPECT_THAT(filling.between(1, 50).refusal, HasSubstr("may have wrapped more than once"));
  EXPECT_TRUE(filling.between(1, 19).energy) << "a span before the gap is not concerned";
  EXPECT_TRUE(filling.between(36, 54).energy);
}

TEST(Record, CounterThatGoesBackIsRefused) {
  Filling filling(counter());
  filling.read_values(20, 0.1, [](double t) { return 7 * t; });
  filling.read_values(20, 0.1, [](double t) { return 7 * (t - 20); });
  EXPECT_THAT(filling.between(5, 35).refusal, HasSubstr("loaded anew"));
  EXPECT_TRUE(filling.between(21, 39).energy) << filling.between(21, 39).refusal;
}

/// After a reset of a counter that wraps, a difference with the range added would be thousands of joules too large.
TEST(Record, ResetIsNoWrap) {
  Filling filling(counter(65532));
  filling.read_values(20, 0.1, [](double t) { return 1000 + 7 * t; });
  filling.read_values(20, 0.1, [](double t) { return 7 * (t - 20); });
  EXPECT_THAT(filling.between(5, 35).refusal, HasSubstr("loaded anew"));
}

TEST(Record, FrozenCounterIsRefused) {
  Filling filling(counter());
  filling.read_values(30, 0.1, [](double) { return 77; });
  EXPECT_THAT(filling.between(1, 29).refusal, HasSubstr("the counter is frozen: none of 2"));
}

TEST(Record, CounterThatFreezesIsRefused) {
  Filling filling(counter());
  filling.read_values(60, 0.1, [](double t) { return 7 * std::min(t, 30.0); });
  EXPECT_THAT(filling.between(1, 59).refusal, HasSubstr("the counter stood still for 2"));
  EXPECT_TRUE(filling.between(1, 29).energy);
}

TEST(Record, OnePackageThatFreezesIsRefused) {
  MeterInfo info = counter();
  info.channels = {{"a"}, {"b"}};
  Filling filling(info);
  filling.read(60, 0.1, [](double t) { return Reading{.values = {7 * t, 5 * std::min(t, 30.0)}}; });
  EXPECT_THAT(filling.between(1, 59).refusal, HasSubstr("stood still"));
}

/// A rail that is switched off takes nothing; the sensor's own time shows that it works.
TEST(Record, StampsTellAnIdleRailFromAFrozenOne) {
  Filling filling(counter());
  filling.read(60, 0.1, [](double t) { return Reading{.values = {7 * std::min(t, 30.0)}, .stamp = t}; });
  const Measurement span = filling.between(1, 59);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, 7 * 29, 1e-6);
  filling.read(60, 0.1, [](double) { return Reading{.values = {210}, .stamp = 60}; });
  EXPECT_THAT(filling.between(61, 119).refusal, HasSubstr("frozen"));
}

TEST(Record, FrozenSensorIsRefused) {
  Filling filling(sensor());
  filling.read_values(30, 0.1, [](double) { return 5; });
  EXPECT_THAT(filling.between(1, 29).refusal, HasSubstr("the sensor is frozen"));
}

TEST(Record, ShortSpanIsRefusedAndSaysWhatIsNeeded) {
  Filling filling(counter());
  filling.read_values(30, 0.1, [](double t) { return 7 * t; });
  const Measurement span = filling.between(5, 12);
  EXPECT_FALSE(span.energy);
  EXPECT_THAT(span.refusal,
              AllOf(HasSubstr("7 s are too short: the counter gave 70 new values, one each 0.1 s, and 100 are "
                              "needed; measure for 10.5 s or longer")));
}

/// The refresh is that of new values, not that of readings.
TEST(Record, RefreshIsObserved) {
  Filling filling(counter());
  filling.read_values(300, 0.1, [](double t) { return 7 * std::floor(t / 2) * 2; });
  const Measurement span = filling.between(10, 290);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.refresh, 2, 0.05);
  EXPECT_NEAR(span.readings, 2800, 1);
  EXPECT_FALSE(filling.between(10, 150).energy) << "70 refreshes";
}

TEST(Record, PowerIsIntegratedByTheTrapezoidRule) {
  Filling filling(sensor());
  filling.read_values(30, 0.1, [](double t) { return 5 + t; });
  const Measurement span = filling.between(5, 25);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, 5 * 20 + 0.5 * (25 * 25 - 5 * 5), 1e-6);
}

/// A power that jumps about between two readings cannot be known better than its mean's standard error.
TEST(Record, NoisyPowerHasAWiderInterval) {
  Filling steady(sensor());
  steady.read_values(30, 0.1, [](double t) { return 10 + 0.001 * t; });
  const double narrow = steady.between(5, 25).energy.value().error;
  Filling noisy(sensor());
  int reading = 0;
  noisy.read_values(30, 0.1, [&](double t) { return (++reading % 2 == 0 ? 15 : 5) + 0.001 * t; });
  const double wide = noisy.between(5, 25).energy.value().error;
  // The standard error of the mean of 200 values with a standard deviation of 5 W, of successive differences sqrt(2)
  // more.
  EXPECT_NEAR(std::sqrt(wide * wide - 1.5 * 1.5), 1.96 * 20 * 5 * std::sqrt(2) / std::sqrt(200), 0.5);
  EXPECT_LT(narrow, 1.1);
}

TEST(Record, SpecAndAveragingWidenTheInterval) {
  MeterInfo info = sensor();
  info.spec = 0.05;
  info.averaging = 1;
  Filling filling(info);
  filling.read_values(30, 0.1, [](double t) { return 5 + 0.1 * t; });
  const Joules energy = filling.between(5, 25).energy.value();
  EXPECT_NEAR(energy.error, std::hypot(0.05 * energy.value, 2.0 + 0.01), 0.3);
}

TEST(Record, NegativeAndHugePowersAreRefused) {
  Filling filling(sensor());
  filling.read_values(20, 0.1, [](double t) { return 5 + t; });
  filling.read_values(20, 0.1, [](double t) { return -5 - t; });
  EXPECT_THAT(filling.between(1, 39).refusal, HasSubstr("is not that of a machine"));
  filling.read_values(20, 0.1, [](double t) { return 5e6 + t; });
  EXPECT_THAT(filling.between(41, 59).refusal, HasSubstr("is not that of a machine"));
}

/// A sensor's rubbish must not swallow the energies after it.
TEST(Record, PowersAfterRubbishAreMeasured) {
  for (const double rubbish : {1e308, -1e308, std::numeric_limits<double>::infinity(), std::nan("")}) {
    Filling filling(sensor());
    filling.read_values(5, 0.1, [&](double) { return rubbish; });
    filling.read_values(25, 0.1, [](double t) { return 20 + 0.1 * std::sin(40 * t); });
    EXPECT_THAT(filling.between(1, 29).refusal, HasSubstr("is not that of a machine"));
    const Measurement after = filling.between(6, 26);
    ASSERT_TRUE(after.energy) << rubbish << ": " << after.refusal;
    EXPECT_NEAR(after.energy->value, 400, 1);
    EXPECT_LT(after.energy->error, 10);
  }
}

TEST(Record, RubbishOfTheSecondSourceIsRefusedAndForgotten) {
  for (const double rubbish : {1e308, std::nan("")}) {
    for (const bool counts : {true, false}) {
      Filling filling(counts ? counter() : sensor());
      filling.read(30, 0.1, [&](double t) {
        const double joules = 20 * t;
        const double watts = 20 + 0.1 * std::sin(40 * t);
        return Reading{.values = {counts ? joules : watts}, .check = t < 5 ? rubbish : counts ? watts : joules};
      });
      EXPECT_FALSE(filling.between(1, 29).energy) << rubbish;
      const Measurement after = filling.between(6, 26);
      ASSERT_TRUE(after.energy) << rubbish << ": " << after.refusal;
      EXPECT_TRUE(after.compared);
    }
  }
}

TEST(Record, FaultRefusesTheSpansThatItTouches) {
  Filling filling(sensor());
  const auto power = [](double t) { return 5 + 0.01 * t; };
  filling.read_values(20, 0.1, power);
  filling.time.pass(0.1);
  filling.record.fault(Clock::now(), "the battery is connected to power; unplug it");
  EXPECT_EQ(filling.record.trouble(), "the battery is connected to power; unplug it");
  EXPECT_FALSE(filling.record.watts_now());
  filling.read_values(20, 0.1, power);
  EXPECT_EQ(filling.between(5, 35).refusal, "the battery is connected to power; unplug it");
  EXPECT_TRUE(filling.between(5, 19.9).energy);
  EXPECT_TRUE(filling.between(21, 40).energy);
  EXPECT_EQ(filling.record.trouble(), "");
}

/// However often it happens.
TEST(Record, FaultsAreNotForgotten) {
  Filling filling(sensor());
  for (int i = 0; i < 600; ++i) {
    filling.read_values(1, 0.1, [](double t) { return 5 + 0.01 * t; });
    filling.record.fault(Clock::now(), "unplug it");
  }
  EXPECT_EQ(filling.between(1, 300).refusal, "unplug it");
}

TEST(Record, MissedReadingsAreCounted) {
  Filling filling(sensor());
  const auto power = [](double t) { return 5 + 0.01 * t; };
  filling.read_values(20, 0.1, power);
  filling.time.pass(0.1);
  filling.record.miss("busy");
  filling.read_values(20, 0.1, power);
  const Measurement span = filling.between(5, 35);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_EQ(span.missed, 1);
  EXPECT_NEAR(span.longest_gap, 0.2, 1e-6);
}

TEST(Record, LongGapsInPowerAreRefused) {
  Filling filling(sensor());
  const auto power = [](double t) { return 5 + 0.01 * t; };
  filling.read_values(20, 0.1, power);
  filling.time.pass(10);
  filling.read_values(20, 0.1, power);
  EXPECT_THAT(filling.between(5, 45).refusal, HasSubstr("10.1 of 40 s are without readings"));
  // A counter goes on by itself.
  Filling counting(counter());
  counting.read_values(20, 0.1, [](double t) { return 7 * t; });
  counting.time.pass(10);
  counting.read_values(20, 0.1, [](double t) { return 7 * t; });
  EXPECT_NEAR(counting.between(5, 45).energy.value().value, 280, 1e-6);
}

TEST(Record, SpanWithoutReadingsIsRefused) {
  Filling filling(counter());
  EXPECT_THAT(filling.between(0, 1).refusal, HasSubstr("has not been read yet"));
  filling.read_values(30, 0.1, [](double t) { return 7 * t; });
  EXPECT_THAT(filling.between(5, 60).refusal, HasSubstr("no readings for 30 s at the ends"));
  filling.record.miss("192.168.0.7 does not answer in time");
  EXPECT_THAT(filling.between(5, 60).refusal, HasSubstr("192.168.0.7 does not answer in time"));
  EXPECT_THAT(filling.between(40, 60).refusal, HasSubstr("was not read"));
  EXPECT_THAT(filling.between(5, 5).refusal, HasSubstr("no length"));
}

/// Both directions: a counter checked by power, and power checked by a counter.
TEST(Record, SourcesThatDisagreeAreRefused) {
  for (const double factor : {1.0, 1.09, 1.2, 0.57}) {
    Filling counting(counter());
    counting.read(30, 0.1, [&](double t) { return Reading{.values = {7 * t}, .check = factor * (7 + 0.001 * t)}; });
    Filling sensing(sensor());
    sensing.read(30, 0.1, [&](double t) { return Reading{.values = {7 + 0.001 * t}, .check = factor * 7 * t}; });
    for (const Filling* filling : {&counting, &sensing}) {
      const Measurement span = filling->between(5, 25);
      EXPECT_EQ(span.energy.has_value(), factor > 0.9 && factor < 1.1) << factor;
      EXPECT_EQ(span.compared, span.energy.has_value());
      if (!span.energy) {
        EXPECT_THAT(span.refusal, HasSubstr("its two sources disagree: 140"));
      }
    }
  }
}

/// The counter of a plug moves once a minute: after half a minute it says nothing.
TEST(Record, CoarseSecondSourceIsNotCompared) {
  Filling filling(sensor());
  filling.read(30, 0.1, [](double t) { return Reading{.values = {7 + 0.001 * t}, .check = 420 * std::floor(t / 60)}; });
  const Measurement span = filling.between(5, 25);
  EXPECT_TRUE(span.energy);
  EXPECT_FALSE(span.compared);
}

TEST(Record, OldReadingsAreThinnedOut) {
  Filling filling(counter());
  filling.record.keep(filling.at(50));
  // Few joules at first, and many from a time on that is kept.
  filling.read_values(20000, 0.1, [](double t) { return t < 50 ? t : 50 + 70 * (t - 50); });
  const Measurement span = filling.between(50, 19950);
  ASSERT_TRUE(span.energy) << span.refusal;
  EXPECT_NEAR(span.energy->value, 70 * 19900, 0.01);
  EXPECT_EQ(span.readings, 199000);
  EXPECT_NEAR(span.refresh, 0.1, 0.001);
  EXPECT_NEAR(span.energy->error, 7, 0.1);
  // Another time has become coarse, and the interval is as wide as that.
  const Measurement coarse = filling.between(500, 19950);
  EXPECT_NEAR(coarse.energy.value().value, 70 * 19450, 0.01);
  EXPECT_GT(coarse.energy->error, 70);
}

TEST(Record, PowerNow) {
  Filling filling(counter());
  EXPECT_FALSE(filling.record.watts_now());
  filling.read_values(30, 0.1, [](double t) { return t < 20 ? 7 * t : 140 + 3 * (t - 20); });
  EXPECT_NEAR(filling.record.watts_now().value(), 3, 1e-6);
  Filling sensing(sensor());
  sensing.read_values(3, 0.1, [](double t) { return t; });
  EXPECT_NEAR(sensing.record.watts_now().value(), 3, 1e-6);
}

}  // namespace
}  // namespace convoy::energy
