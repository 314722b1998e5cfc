// Tests the power that is learned from the joules of a run.

#include "master/cluster/learned_power.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// The seconds of a run that were spent on each part.
struct Split {
  double compute;
  double transfer;
  double wait;
};
constexpr Split kSplit{.compute = 6, .transfer = 1, .wait = 3};

/// The energy of a run at the given watts of each part.
MachineEnergy energy_at(const Split& split, double compute, double transfer, double wait, double idle) {
  return {.meter = "rapl",
          .seconds = split.compute + split.transfer + split.wait,
          .compute = split.compute * compute,
          .transfer = split.transfer * transfer,
          .wait = split.wait * wait,
          .compute_seconds = split.compute,
          .transfer_seconds = split.transfer,
          .wait_seconds = split.wait,
          .idle_watts = idle};
}

constexpr double kNear = 1e-9;

TEST(LearnedPower, IsTheSplitsWhereTheMeterIsFast) {
  const Power power = power_of(energy_at(kSplit, 25, 8, 5, 5)).value();
  EXPECT_NEAR(power.idle, 5, kNear);
  EXPECT_NEAR(power.compute, 25, kNear);
  EXPECT_NEAR(power.transfer, 8, kNear);
}

TEST(LearnedPower, TakesTheWaitingsWhereIdlingWasNotMeasured) {
  EXPECT_NEAR(power_of(energy_at(kSplit, 25, 8, 6, 0)).value().idle, 6, kNear);
  constexpr Split busy{.compute = 9, .transfer = 1, .wait = 0.1};
  EXPECT_FALSE(power_of(energy_at(busy, 25, 8, 6, 0))) << "it hardly waited";
  EXPECT_TRUE(power_of(energy_at(busy, 25, 8, 6, 5)));
}

/// A meter slower than a step has one power for all parts. The joules of the run stay what they were.
TEST(LearnedPower, KeepsTheJoulesOfTheRunWhereTheMeterIsSlow) {
  const MachineEnergy energy = energy_at(kSplit, 17, 17, 17, 5);
  const Power power = power_of(energy).value();
  EXPECT_NEAR(power.idle, 5, kNear);
  EXPECT_NEAR(power.compute * kSplit.compute + power.transfer * kSplit.transfer + power.idle * kSplit.wait,
              energy.joules(), kNear);
  EXPECT_GT(power.compute, 17);
}

/// Such a meter gives a short transfer the power of the computing around it, which a plan with long transfers must not
/// take for its own.
TEST(LearnedPower, GivesNoPowerToTransfersThatAreTooShortToTell) {
  constexpr Split hardly_moving{.compute = 8, .transfer = 0.1, .wait = 1.9};
  const MachineEnergy energy = energy_at(hardly_moving, 25, 24, 5, 5);
  const Power power = power_of(energy).value();
  EXPECT_NEAR(power.transfer, 5, kNear);
  EXPECT_NEAR(power.compute * 8 + power.transfer * 0.1 + power.idle * 1.9, energy.joules(), kNear);
}

TEST(LearnedPower, IsNotMadeUp) {
  EXPECT_FALSE(power_of({.refusal = "no meter"}));
  EXPECT_FALSE(power_of({.meter = "rapl"})) << "it has told nothing yet";
  constexpr Split waiting{.compute = 0, .transfer = 1, .wait = 3};
  EXPECT_FALSE(power_of(energy_at(waiting, 25, 8, 5, 5))) << "nobody has seen it compute";
  EXPECT_FALSE(power_of(energy_at(kSplit, 4, 4, 4, 5))) << "computing takes less than idling";
}

Calibration two_slaves() {
  return {.batch = 8,
          .stages = {"conv1"},
          .master = {},
          .members = {{.name = "a", .stages = {{{1, 1, 1, 1}}}}, {.name = "b", .stages = {{{1, 1, 1, 1}}}}}};
}

TEST(LearnedPower, GoesToTheMachinesOfItsName) {
  Calibration calibration = two_slaves();
  const MachineEnergy master{.meter = "rapl", .seconds = 10, .wait = 120};
  learn_power(
      calibration,
      {{"a", {.refusal = "no meter"}}, {"b", energy_at(kSplit, 25, 8, 5, 5)}, {"gone", master}, {"master", master}});
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
