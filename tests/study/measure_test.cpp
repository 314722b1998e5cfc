// The trials of a study in made-up time: intervals, when trials end, refusals and interruptions.
#include "study/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.hpp"
#include "tests/energy/fake_machine.hpp"

namespace convoy::study {
namespace {

using testing::HasSubstr;

TEST(Interval, FactorsAreThoseOfStudentsT) {
  for (const auto& [count, factor] : std::vector<std::pair<int, double>>{
           {2, 31.8205}, {5, 3.7469}, {11, 2.7638}, {12, 2.7181}, {21, 2.5280}, {31, 2.4573}, {121, 2.3578}}) {
    EXPECT_NEAR(t_factor(count), factor, 5e-4) << count;
  }
}

TEST(Interval, IsThatOfTheClosedForm) {
  // The deviation of 1, 2, 3, 4, 5 is sqrt(2.5), so the standard error of the mean is sqrt(0.5).
  const Estimate plain = mean_of({1, 2, 3, 4, 5}, {});
  EXPECT_DOUBLE_EQ(plain.value, 3);
  EXPECT_NEAR(plain.error, 3.7469 * std::sqrt(0.5), 1e-9);
  const Estimate read = mean_of({1, 2, 3, 4, 5}, {3, 3, 3, 5, 1});
  EXPECT_NEAR(read.error, std::hypot(3.7469 * std::sqrt(0.5), 3), 1e-9);
}

/// A machine in made-up time. It takes one power while it works and another while it is idle, and its meter, a counter,
/// has a new value each `refresh`.
class Bench {
 public:
  explicit Bench(std::uint64_t seed = 1) : random_(seed, 3) {
    meter_.look = [this](const std::function<void(energy::Record&)>& look) { look(record_); };
    read();
  }

  /// A step of 4 images and 2 GFLOP.
  Work work() {
    return {.step =
                [this] {
                  pass(step_seconds * (1 + noise * random_.normal()), busy_watts * (1 + noise * random_.normal()));
                  if (stop_after > 0 && --stop_after == 0) stop = true;
                },
            .images = 4,
            .flops = 2e9};
  }
  const StudyMeter& meter() { return meter_; }
  double seconds() const { return time_.seconds(); }

  /// Lets the machine be idle, as a sleep does.
  Idle idle() {
    IdleTime idle(*this);
    Clock::use(&idle);
    Idle result = measure_idle(meter_, rules, stop);
    Clock::use(&time_);
    return result;
  }

  Rules rules;
  std::atomic<bool> stop = false;
  int stop_after = 0;  ///< steps
  double step_seconds = 0.05;
  double busy_watts = 10;
  double idle_watts = 2;
  double noise = 0;
  double refresh = 0.02;
  bool frozen = false;
  std::string fault;

 private:
  /// Time in which sleeps cost the idle power.
  class IdleTime : public TimeSource {
   public:
    explicit IdleTime(Bench& bench) : bench_(bench) {}
    TimePoint now() override { return bench_.time_.now(); }
    void sleep_until(TimePoint time) override {
      bench_.pass(std::chrono::duration<double>(time - now()).count(), bench_.idle_watts);
    }

   private:
    Bench& bench_;
  };

  void pass(double seconds, double watts) {
    const double end = time_.seconds() + seconds;
    while (next_ < end) {
      joules_ += watts * (next_ - time_.seconds());
      time_.pass(next_ - time_.seconds());
      read();
      next_ += refresh;
    }
    joules_ += watts * (end - time_.seconds());
    time_.pass(end - time_.seconds());
  }
  void read() {
    if (!fault.empty()) record_.fault(time_.now(), fault);
    record_.add(time_.now(), {.values = {frozen ? 5 : joules_}, .check = {}, .taken = {}, .stamp = {}});
  }

  energy::FakeTime time_;
  Random random_;
  energy::Record record_{{.name = "fake", .quantity = energy::Quantity::joules, .channels = {{.name = "all"}}}};
  StudyMeter meter_;
  double joules_ = 0;
  double next_ = 0.001;
};

TEST(Study, SteadyWorkIsMeasuredInFiveTrialsOfTenSeconds) {
  Bench bench;
  const Idle before = bench.idle();
  Result result = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  take_off_idle(result, before, bench.idle());
  EXPECT_EQ(result.ending, Ending::narrow);
  ASSERT_EQ(result.trials.size(), 5U);
  for (const Trial& trial : result.trials) EXPECT_NEAR(trial.seconds, 10, 0.2);
  // 0.05 s at 10 W for 4 images are 0.125 J each, and 0.1 J above 2 W.
  EXPECT_NEAR(result.image_joules->value, 0.125, 0.0005);
  EXPECT_NEAR(result.image_above_idle->value, 0.1, 0.0005);
  EXPECT_NEAR(result.idle_watts->value, 2, 0.01);
  EXPECT_NEAR(result.images_per_second().value, 80, 1e-5);
  EXPECT_NEAR(result.gflops_per_watt(*result.image_joules).value, 4, 0.02);
  EXPECT_NEAR(result.gflops_per_watt(*result.image_above_idle).value, 5, 0.03);
  EXPECT_NEAR(result.refresh, 0.02, 0.001);
  EXPECT_TRUE(result.refusal.empty() && result.no_idle.empty()) << result.refusal << result.no_idle;
}

TEST(Study, TrialsHaveAHundredNewValuesOfASlowMeter) {
  Bench bench;
  bench.refresh = 0.5;
  const Result result = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  ASSERT_EQ(result.trials.size(), 5U);
  for (const Trial& trial : result.trials) EXPECT_NEAR(trial.seconds, 50, 1);
  EXPECT_NEAR(result.image_joules->value, 0.125, 0.002);
}

TEST(Study, TrialsGoOnUntilTheIntervalIsNarrow) {
  Bench bench(7);
  bench.noise = 0.3;
  bench.step_seconds = 2;
  bench.rules.interval = 0.07;
  bench.rules.most_trials = 1000;
  const Result narrow = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  EXPECT_EQ(narrow.ending, Ending::narrow);
  EXPECT_GT(narrow.trials.size(), 5U);
  EXPECT_LE(narrow.image_joules->error, 0.07 * narrow.image_joules->value);
  std::vector<Trial> fewer = narrow.trials;
  fewer.pop_back();
  // One trial less would not have been enough.
  std::vector<double> joules;
  std::vector<double> errors;
  for (const Trial& trial : fewer) {
    joules.push_back(trial.joules->value / trial.images);
    errors.push_back(trial.joules->error / trial.images);
  }
  const Estimate before = mean_of(joules, errors);
  EXPECT_GT(before.error, 0.07 * before.value);
}

TEST(Study, TrialsEndAtTheirLimits) {
  Bench bench(3);
  bench.noise = 0.3;
  bench.step_seconds = 5;
  bench.rules.interval = 0.001;
  bench.rules.most_trials = 8;
  const Result most = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  EXPECT_EQ(most.ending, Ending::limit);
  EXPECT_EQ(most.trials.size(), 8U);
  EXPECT_GT(most.image_joules->error, 0.001 * most.image_joules->value);
  bench.rules.most_seconds = 60;
  const double begin = bench.seconds();
  const Result late = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  EXPECT_EQ(late.ending, Ending::limit);
  EXPECT_LT(bench.seconds() - begin, 90);
}

/// In at least 95 of 100 seeded studies of noisy work the true mean lies within the interval, although trials end by
/// it.
TEST(Study, TheTruthLiesInTheIntervalInNinetyFiveOfAHundred) {
  int joules_within = 0;
  int above_within = 0;
  int more_trials = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Bench bench(seed);
    bench.noise = 0.2;
    bench.step_seconds = 1;
    bench.rules.interval = 0.05;
    const Idle before = bench.idle();
    Result result = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
    take_off_idle(result, before, bench.idle());
    ASSERT_TRUE(result.image_joules && result.image_above_idle) << result.refusal << result.no_idle;
    joules_within += std::abs(result.image_joules->value - 2.5) <= result.image_joules->error ? 1 : 0;
    above_within += std::abs(result.image_above_idle->value - 2) <= result.image_above_idle->error ? 1 : 0;
    more_trials += result.trials.size() > 5 ? 1 : 0;
  }
  EXPECT_GE(joules_within, 95);
  EXPECT_GE(above_within, 95);
  EXPECT_GT(more_trials, 50);
  RecordProperty("joules_within", joules_within);
  RecordProperty("above_within", above_within);
}

TEST(Study, WithoutAMeterSpeedsAreMeasuredAndEnergyIsRefused) {
  Bench bench;
  const StudyMeter none{.look = {}, .why = "there is no meter"};
  Result result = measure(bench.work(), none, bench.rules, bench.stop);
  take_off_idle(result, measure_idle(none, bench.rules, bench.stop), measure_idle(none, bench.rules, bench.stop));
  EXPECT_EQ(result.ending, Ending::narrow);
  EXPECT_NEAR(result.images_per_second().value, 80, 1e-5);
  EXPECT_FALSE(result.image_joules || result.image_above_idle);
  EXPECT_EQ(result.refusal, "there is no meter");
  EXPECT_EQ(result.no_idle, "there is no meter");
}

TEST(Study, WhatAMeterRefusesIsRefusedAfterThreeTrials) {
  Bench bench;
  bench.fault = "the battery is charged";
  const Result charged = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  EXPECT_EQ(charged.refusal, "the battery is charged");
  EXPECT_FALSE(charged.image_joules);
  EXPECT_NEAR(charged.images_per_second().value, 80, 1e-5);
  EXPECT_THAT(bench.idle().refusal, HasSubstr("the battery is charged"));
  Bench still;
  still.frozen = true;
  const Result frozen = measure(still.work(), still.meter(), still.rules, still.stop);
  EXPECT_THAT(frozen.refusal, HasSubstr("the counter is frozen"));
  EXPECT_FALSE(frozen.image_joules);
}

TEST(Study, AMeterThatIsTooSlowForTheLimitIsRefused) {
  Bench bench;
  bench.refresh = 30;
  const Result result = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  EXPECT_EQ(result.ending, Ending::limit);
  EXPECT_FALSE(result.image_joules);
  EXPECT_THAT(result.refusal, HasSubstr("and 100 are needed"));
}

TEST(Study, AssumedPowerIsNamed) {
  Bench bench;
  bench.rules.assumed_watts = 20;
  const StudyMeter none{.look = {}, .why = "there is no meter"};
  Result result = measure(bench.work(), none, bench.rules, bench.stop);
  take_off_idle(result, {.watts = {}, .refusal = "x"}, {.watts = {}, .refusal = "x"});
  EXPECT_TRUE(result.assumed);
  EXPECT_NEAR(result.image_joules->value, 0.25, 1e-7);
  EXPECT_EQ(result.refusal, "there is no meter");
  EXPECT_EQ(result.no_idle, "the power is assumed");
  // Where energy is measured, nothing is assumed.
  const Result measured = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  EXPECT_FALSE(measured.assumed);
  EXPECT_NEAR(measured.image_joules->value, 0.125, 0.0005);
}

TEST(Study, APowerThatIsNotAboveIdleIsRefused) {
  Bench bench;
  bench.idle_watts = 10;
  const Idle before = bench.idle();
  Result result = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  take_off_idle(result, before, bench.idle());
  EXPECT_TRUE(result.image_joules);
  EXPECT_FALSE(result.image_above_idle);
  EXPECT_THAT(result.no_idle, HasSubstr("not above the idle power"));
}

TEST(Study, ADriftOfTheIdlePowerWidensTheInterval) {
  Bench bench;
  const Idle before = bench.idle();
  Result result = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  bench.idle_watts = 4;
  take_off_idle(result, before, bench.idle());
  EXPECT_NEAR(result.idle_watts->value, 3, 0.01);
  EXPECT_GE(result.idle_watts->error, 0.99);
  // 1 W for the 0.0125 s of an image.
  EXPECT_GE(result.image_above_idle->error, 0.0123);
}

TEST(Study, AnInterruptionLeavesTheTrialsUpToThen) {
  Bench bench;
  bench.stop_after = 200 * 4;  // 40 s: the warm-up, two trials and a part of the third, or of the fourth
  const Result some = measure(bench.work(), bench.meter(), bench.rules, bench.stop);
  EXPECT_EQ(some.ending, Ending::interrupted);
  EXPECT_THAT(some.trials.size(), testing::AllOf(testing::Ge(2U), testing::Le(3U)));
  EXPECT_NEAR(some.image_joules->value, 0.125, 0.002);
  Bench soon;
  soon.stop_after = 1;
  const Result none = measure(soon.work(), soon.meter(), soon.rules, soon.stop);
  EXPECT_EQ(none.ending, Ending::interrupted);
  EXPECT_FALSE(none.image_joules || none.image_seconds);
  EXPECT_EQ(none.refusal, "it was interrupted before its second trial");
}

}  // namespace
}  // namespace convoy::study
