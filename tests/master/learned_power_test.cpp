// Tests the power that is learned from the joules of a run.

#include "master/cluster/learned_power.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// The joules of 10 s that the times split, at the given watts of each part.
MachineEnergy energy_at(const MemberTime& time, double compute, double transfer, double wait, double idle) {
  const double scale = 10.0 / (time.compute + time.transfer + time.wait);
  return {.meter = "rapl",
          .seconds = 10.0,
          .compute = scale * time.compute * compute,
          .transfer = scale * time.transfer * transfer,
          .wait = scale * time.wait * wait,
          .idle_watts = idle};
}

/// The joules that a power gives the times of energy_at().
double joules_of(const Power& power, const MemberTime& time) {
  const double scale = 10.0 / (time.compute + time.transfer + time.wait);
  return scale * (power.compute * time.compute + power.transfer * time.transfer + power.idle * time.wait);
}

constexpr double kNear = 1e-9;

TEST(LearnedPower, IsTheSplitsWhereTheMeterIsFast) {
  const MemberTime time{.member = "a", .compute = 3.0, .transfer = 0.5, .wait = 1.5};
  const Power power = power_of(energy_at(time, 25, 8, 5, 5), time).value();
  EXPECT_NEAR(power.idle, 5, kNear);
  EXPECT_NEAR(power.compute, 25, kNear);
  EXPECT_NEAR(power.transfer, 8, kNear);
}

TEST(LearnedPower, TakesTheWaitingsWhereIdlingWasNotMeasured) {
  const MemberTime time{.member = "a", .compute = 3.0, .transfer = 0.5, .wait = 1.5};
  EXPECT_NEAR(power_of(energy_at(time, 25, 8, 6, 0), time).value().idle, 6, kNear);
  const MemberTime busy{.member = "a", .compute = 3.0, .transfer = 0.5, .wait = 0.01};
  EXPECT_FALSE(power_of(energy_at(busy, 25, 8, 6, 0), busy)) << "it hardly waited";
  EXPECT_TRUE(power_of(energy_at(busy, 25, 8, 6, 5), busy));
}

/// A meter slower than a step has one power for all parts. The joules of the run stay what they were.
TEST(LearnedPower, KeepsTheJoulesOfTheRunWhereTheMeterIsSlow) {
  const MemberTime time{.member = "a", .compute = 3.0, .transfer = 0.5, .wait = 1.5};
  const MachineEnergy energy = energy_at(time, 17, 17, 17, 5);
  const Power power = power_of(energy, time).value();
  EXPECT_NEAR(power.idle, 5, kNear);
  EXPECT_NEAR(joules_of(power, time), energy.joules(), kNear);
  EXPECT_GT(power.compute, 17);
}

TEST(LearnedPower, IsNotMadeUp) {
  const MemberTime time{.member = "a", .compute = 3.0, .transfer = 0.5, .wait = 1.5};
  EXPECT_FALSE(power_of({.refusal = "no meter"}, time));
  EXPECT_FALSE(power_of(energy_at(time, 25, 8, 5, 5), {.member = "a"})) << "no time is known";
  const MemberTime waiting{.member = "a", .compute = 0.0, .transfer = 0.5, .wait = 1.5};
  EXPECT_FALSE(power_of(energy_at(waiting, 25, 8, 5, 5), waiting)) << "nobody has seen it compute";
  EXPECT_FALSE(power_of(energy_at(time, 4, 4, 4, 5), time)) << "computing takes less than idling";
}

Calibration two_slaves() {
  return {.batch = 8,
          .stages = {"conv1"},
          .master = {},
          .members = {{.name = "a", .stages = {{{1, 1, 1, 1}}}}, {.name = "b", .stages = {{{1, 1, 1, 1}}}}}};
}

TEST(LearnedPower, GoesToTheMachinesOfItsName) {
  Calibration calibration = two_slaves();
  const MemberTime time{.member = "b", .compute = 3.0, .transfer = 0.5, .wait = 1.5};
  const MachineEnergy master{.meter = "rapl", .seconds = 10, .wait = 120};
  learn_power(
      calibration,
      {{"a", {.refusal = "no meter"}}, {"b", energy_at(time, 25, 8, 5, 5)}, {"gone", master}, {"master", master}},
      {{.member = "a", .compute = 1}, time});
  EXPECT_FALSE(calibration.members[0].power);
  EXPECT_NEAR(calibration.members[1].power.value().compute, 25, kNear);
  EXPECT_EQ(calibration.master.power, (Power{12, 12, 12})) << "the mean power of the machine that hands out work";
}

TEST(LearnedPower, IsTakenFromAnEarlierRun) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/calibration.json";
  Calibration before = two_slaves();
  write_text(file, to_json(before));
  Calibration now = two_slaves();
  EXPECT_THAT([&] { take_power(now, file); },
              testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr(file), HasSubstr("the watts of no machine"))));
  before.members[1].power = Power{5, 25, 8};
  before.members.push_back({.name = "master", .stages = {{}}, .power = Power{4, 6, 5}});
  write_text(file, to_json(before));
  take_power(now, file);
  EXPECT_FALSE(now.members[0].power);
  EXPECT_EQ(now.members[1].power, (Power{5, 25, 8}));
  EXPECT_EQ(now.master.power, (Power{4, 6, 5}));
}

}  // namespace
}  // namespace convoy
