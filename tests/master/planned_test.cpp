// Tests the decision whether a run uses its slaves or trains on the master alone, and plans that the user fixes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "master/cluster/planning.hpp"

namespace convoy {
namespace {

/// A plan whose step was predicted to take `with_slaves` seconds, where the master alone was timed at `alone` seconds.
Planned planned(double with_slaves, double alone) {
  Planned made;
  made.calibration.seconds_alone = alone;
  made.choice = Choice{.plan = {}, .predicted = {.seconds = with_slaves, .nodes = {}}, .alternatives = {}};
  return made;
}

TEST(BetterAlone, UnlessSlavesMakeAStepShorterByATenth) {
  EXPECT_TRUE(planned(2.0, 1.0).better_alone()) << "slaves make the step longer";
  EXPECT_TRUE(planned(1.0, 1.0).better_alone()) << "slaves change nothing";
  EXPECT_TRUE(planned(1.0, 1.09).better_alone()) << "the gain is within the error of predictions";
  EXPECT_FALSE(planned(1.0, 1.11).better_alone());
  EXPECT_FALSE(planned(1.0, 4.0).better_alone());
}

/// Slaves that make a step shorter may make it take more energy.
TEST(BetterAlone, FollowsTheObjective) {
  Planned made = planned(1.0, 2.0);
  made.calibration.members = {
      {.name = "slave", .stages = {}, .power = Power{.idle = 1, .compute = 100, .transfer = 1}}};
  made.calibration.master.power = Power{.idle = 1, .compute = 10, .transfer = 1};
  made.choice->energy.known = 40;
  EXPECT_FALSE(made.better_alone());
  made.wishes.objective = Objective::energy;  // 2 s at 10 + 1 W
  EXPECT_TRUE(made.better_alone());
  made.choice->energy.known = 19;
  EXPECT_FALSE(made.better_alone());
  made.wishes.objective = Objective::edp;  // 44 J s
  EXPECT_FALSE(made.better_alone());
  made.choice->energy.known = 41;
  EXPECT_TRUE(made.better_alone());
}

TEST(BetterAlone, NeverWithoutATimeOfTheMasterAlone) {
  EXPECT_FALSE(planned(1.0, 0.0).better_alone()) << "its memory is too small, or the user asked for an exchange";
}

TEST(BetterAlone, NeverWhereThePlanIsFixed) {
  Planned fixed;
  fixed.calibration.seconds_alone = 1.0;
  EXPECT_FALSE(fixed.better_alone());
}

std::vector<Stage> trunk() {
  return {{.name = "conv1", .channels = 3, .height = 8, .width = 8, .conv = {.filters = 100}},
          {.name = "conv2", .channels = 100, .height = 8, .width = 8, .conv = {.filters = 10}}};
}

std::vector<int> filters(const Plan& plan, std::size_t stage) {
  std::vector<int> counts(plan.members.size(), 0);
  for (const Tile& tile : tiles_of(plan.stages[stage])) counts.at(tile.member) = tile.filters.count;
  return counts;
}

TEST(FixedPlans, HaveTheSharesAndTheWishesOfTheUser) {
  const FixedPlan fixed({.shares = "5,3,2", .exchange = "ring", .micro_batch = 4, .wire = "bf16"}, trunk(), 8,
                        {"a", "b", "c"});
  EXPECT_EQ(fixed.members(), (std::set<std::string>{"a", "b", "c"}));
  const Plan plan = fixed.for_members({"a", "b", "c"}, trunk());
  EXPECT_EQ(filters(plan, 0), (std::vector<int>{50, 30, 20}));
  EXPECT_EQ(filters(plan, 1), (std::vector<int>{5, 3, 2}));
  EXPECT_EQ(plan.exchange, Exchange::ring);
  EXPECT_EQ(plan.wire, NumberType::bf16);
  EXPECT_EQ(plan.micro_batches, 2);
}

TEST(FixedPlans, GiveTheFiltersOfTheLostToTheOthersByTheirShares) {
  const FixedPlan fixed({.shares = "5,3,2", .exchange = "ring", .micro_batch = 4, .wire = "bf16"}, trunk(), 8,
                        {"a", "b", "c"});
  const Plan plan = fixed.for_members({"b", "c"}, trunk());
  EXPECT_EQ(plan.members, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(filters(plan, 0), (std::vector<int>{60, 40}));
  EXPECT_EQ(plan.exchange, Exchange::ring);
  EXPECT_EQ(plan.wire, NumberType::bf16);
  EXPECT_EQ(plan.micro_batches, 2);
}

std::vector<int> samples(const Plan& plan, std::size_t stage) {
  std::vector<int> counts(plan.members.size(), 0);
  for (const Tile& tile : tiles_of(plan.stages[stage])) counts.at(tile.member) = tile.samples.count;
  return counts;
}

TEST(FixedPlans, CutStagesAlongSamplesWhereTheUserSaysSo) {
  const FixedPlan fixed({.shares = "5,3,2", .layout = "samples"}, trunk(), 20, {"a", "b", "c"});
  EXPECT_EQ(samples(fixed.for_members({"a", "b", "c"}, trunk()), 0), (std::vector<int>{10, 6, 4}));
  EXPECT_EQ(samples(fixed.for_members({"a", "b", "c"}, trunk()), 1), (std::vector<int>{10, 6, 4}));
  EXPECT_EQ(samples(fixed.for_members({"b", "c"}, trunk()), 0), (std::vector<int>{12, 8}));
}

/// The last member has nobody to share samples with.
TEST(FixedPlans, OfOneMemberAreNotCut) {
  const FixedPlan fixed({.shares = "1,1", .layout = "samples"}, trunk(), 8, {"a", "b"});
  EXPECT_EQ(filters(fixed.for_members({"b"}, trunk()), 0), (std::vector<int>{100}));
}

TEST(FixedPlans, OfOneSampleAtATimeCannotBeCut) {
  try {
    const FixedPlan fixed({.shares = "1,1", .layout = "samples", .micro_batch = 1}, trunk(), 8, {"a", "b"});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("leave out --micro-batch"));
  }
}

TEST(FixedPlans, DivideEquallyWhereOnlyMembersWithoutAShareAreLeft) {
  const FixedPlan fixed({.shares = "1,0,0"}, trunk(), 8, {"a", "b", "c"});
  EXPECT_EQ(filters(fixed.for_members({"b", "c"}, trunk()), 0), (std::vector<int>{50, 50}));
}

}  // namespace
}  // namespace convoy
