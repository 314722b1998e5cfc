#include "plan/rebalance.hpp"

#include <gtest/gtest.h>

#include "plan/task_graph.hpp"

namespace convoy {
namespace {

std::vector<Stage> equal_stages() {
  const Convolution conv{.filters = 100, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
  return {{.name = "conv1", .channels = 3, .height = 16, .width = 16, .conv = conv, .after = {}},
          {.name = "conv2", .channels = 100, .height = 16, .width = 16, .conv = conv, .after = {}}};
}

/// A member that needs `seconds` for each filter, a third of it in each pass.
MemberProfile member(const std::string& name, double first, double second) {
  MemberProfile profile{.name = name, .stages = {}};
  for (const double each : {first, second}) {
    profile.stages.push_back(
        {{10, 10 * each / 3, 10 * each / 3, 10 * each / 3}, {100, 100 * each / 3, 100 * each / 3, 100 * each / 3}});
  }
  return profile;
}

Plan equal_shares(int members) {
  std::vector<std::string> names;
  for (int m = 0; m < members; ++m) names.push_back(fmt::format("m{}", m));
  return proportional_plan(equal_stages(), 8, names, std::vector<double>(static_cast<std::size_t>(members), 1.0));
}

TEST(Rebalance, ScalesTimingsToWhatWasMeasured) {
  const Plan plan = equal_shares(2);
  const auto now = corrected({member("m0", 0.1, 0.1), member("m1", 0.1, 0.1)}, plan, {{10.0, 5.0}, {5.0, 5.0}});
  EXPECT_NEAR(predict_seconds(now[0], 0, 50), 10.0, 1e-9);
  EXPECT_NEAR(predict_seconds(now[0], 1, 50), 5.0, 1e-9);
  EXPECT_NEAR(predict_seconds(now[0], 0, 100), 20.0, 1e-9);
  EXPECT_NEAR(predict_seconds(now[1], 0, 50), 5.0, 1e-9);
}

/// A small gain must not move filters, or they would move back and forth between equal members.
TEST(Rebalance, LeavesAStageWithItsHolderThoughItTookLongerThanTimed) {
  Plan plan = equal_shares(2);
  plan.stages[0] = stage_plan({100, 0}, micro_batch_size(plan));
  const std::vector<MemberProfile> profiles{member("m0", 0.1, 0.1), member("m1", 0.1, 0.1)};
  const auto now = corrected(profiles, plan, {{20.0, 5.0}, {0.0, 5.0}});
  EXPECT_NEAR(predict_seconds(now[1], 0, 100), 20.0, 1e-9);
}

TEST(Rebalance, KnowsThatAReplicatedStageGoesForwardWhole) {
  Plan plan = equal_shares(2);
  plan.exchange = Exchange::ring;
  plan.stages[0].replicated = true;
  // Forward runs 100 filters and backward 50: the time is a third of 10 s plus two thirds of 5 s.
  const double as_predicted = 10.0 / 3 + 2 * 5.0 / 3;
  const auto now =
      corrected({member("m0", 0.1, 0.1), member("m1", 0.1, 0.1)}, plan, {{as_predicted, 5.0}, {as_predicted, 5.0}});
  EXPECT_NEAR(predict_seconds(now[0], 0, 50), 5.0, 1e-9);
}

TEST(Rebalance, MovesFiltersToWhoIsFaster) {
  const std::vector<MemberProfile> profiles{member("m0", 0.1, 0.1), member("m1", 0.3, 0.3)};
  const auto better = rebalanced(equal_stages(), equal_shares(2), profiles, 0.05);
  ASSERT_TRUE(better);
  EXPECT_NO_THROW(validate(*better, equal_stages()));
  EXPECT_EQ(own_filters(*better, 1, 0).count, 75);
  EXPECT_FALSE(rebalanced(equal_stages(), *better, profiles, 0.05)) << "the plan is balanced after the first change";
}

/// A member that is three times as fast gets three times the samples, in all stages alike.
TEST(Rebalance, MovesSamplesToWhoIsFaster) {
  Plan plan = equal_shares(2);
  ASSERT_TRUE(cut_by_samples(plan, equal_stages(), 2, {1.0, 1.0}));
  std::vector<MemberProfile> profiles{member("m0", 0.1, 0.2), member("m1", 0.5, 0.4)};
  const auto better = rebalanced(equal_stages(), plan, profiles, 0.05);
  ASSERT_TRUE(better);
  EXPECT_NO_THROW(validate(*better, equal_stages()));
  for (const StagePlan& stage : better->stages) {
    EXPECT_EQ(tile_of(stage, 0).samples, (SampleRange{0, 6}));
    EXPECT_EQ(tile_of(stage, 1).samples, (SampleRange{6, 2}));
    EXPECT_EQ(owners_of(stage)[0].filters.count, 75);
  }
  EXPECT_FALSE(rebalanced(equal_stages(), *better, profiles, 0.05)) << "the plan is balanced after the first change";
  const auto least = rebalanced(equal_stages(), plan, {profiles[0], member("m1", 50.0, 50.0)}, 0.05);
  ASSERT_TRUE(least);
  EXPECT_EQ(tile_of(least->stages[0], 1).samples.count, 1)
      << "the speed of a member without samples would not be known";
  profiles[0].memory = 1000;
  EXPECT_FALSE(rebalanced(equal_stages(), plan, profiles, 0.05)) << "more samples would not fit";
}

/// Stages that are cut along samples, and filters after them, move together. Each sample's maps stay where they are
/// between the first stages, so that one of these members may be slower than another in one of them.
TEST(Rebalance, MovesSamplesAndFilters) {
  Plan plan = equal_shares(2);
  ASSERT_TRUE(cut_by_samples(plan, equal_stages(), 1, {1.0, 1.0}));
  const auto better = rebalanced(equal_stages(), plan, {member("m0", 0.1, 0.3), member("m1", 0.3, 0.1)}, 0.05);
  ASSERT_TRUE(better);
  EXPECT_EQ(tile_of(better->stages[0], 0).samples.count, 6);
  EXPECT_EQ(own_filters(*better, 1, 0).count, 25);
  ASSERT_TRUE(cut_by_samples(plan, equal_stages(), 2, {1.0, 1.0}));
  EXPECT_FALSE(rebalanced(equal_stages(), plan, {member("m0", 0.1, 0.3), member("m1", 0.3, 0.1)}, 0.05))
      << "both members take as long for all stages";
}

/// Rows that are cut along filters, too, and rows of other members in each stage stay.
TEST(Rebalance, LeavesOtherRows) {
  const std::vector<MemberProfile> profiles{member("m0", 0.1, 0.1), member("m1", 0.3, 0.3), member("m2", 0.1, 0.1)};
  Plan plan = equal_shares(3);
  plan.stages[0] = rows_of(equal_stages()[0], {4, 4, 0}, {1.0, 1.0, 0.0});
  plan.stages[1] = rows_of(equal_stages()[1], {0, 4, 4}, {0.0, 1.0, 1.0});
  EXPECT_FALSE(rebalanced(equal_stages(), plan, profiles, 0.05));
}

TEST(Rebalance, StaysWithinTheMargin) {
  const std::vector<MemberProfile> profiles{member("m0", 0.1, 0.1), member("m1", 0.104, 0.104)};
  EXPECT_FALSE(rebalanced(equal_stages(), equal_shares(2), profiles, 0.05));
  EXPECT_TRUE(rebalanced(equal_stages(), equal_shares(2), profiles, 0.005));
}

TEST(Rebalance, LeavesOutWhoWasLeftOut) {
  Plan plan = equal_shares(3);
  for (StagePlan& stage : plan.stages) stage = stage_plan({50, 0, 50}, micro_batch_size(plan));
  const std::vector<MemberProfile> profiles{member("m0", 0.1, 0.1), member("m1", 0.1, 0.1), member("m2", 0.4, 0.4)};
  const auto better = rebalanced(equal_stages(), plan, profiles, 0.05);
  ASSERT_TRUE(better);
  EXPECT_EQ(own_filters(*better, 0, 1).count, 0);
  EXPECT_EQ(own_filters(*better, 0, 0).count, 80);
}

TEST(Rebalance, LeavesThePlanWhereNoOtherFits) {
  std::vector<MemberProfile> profiles{member("m0", 0.1, 0.1), member("m1", 0.1, 0.3)};
  for (MemberProfile& profile : profiles) profile.memory = 1000;
  EXPECT_FALSE(rebalanced(equal_stages(), equal_shares(2), profiles, 0.05));
}

/// With steps that overlap, members are in different steps. Waiting for the times of all would end the overlap.
TEST(Rebalancers, CountEachMembersOwnSteps) {
  Rebalancer rebalancer({.profiles = {member("m0", 0.1, 0.1), member("m1", 0.1, 0.1)}, .first_steps = 3});
  const Plan plan = equal_shares(2);
  const std::vector<double> warming{99.0, 1.0};
  const std::vector<double> as_timed{5.0, 5.0};
  const std::vector<double> slow{15.0, 15.0};
  rebalancer.begin(plan);
  for (int step = 0; step < 2; ++step) {
    rebalancer.add(0, warming);
    rebalancer.add(1, warming);
  }
  for (int step = 0; step < 5; ++step) rebalancer.add(0, as_timed);
  rebalancer.add(1, slow);
  rebalancer.add(1, slow);
  EXPECT_FALSE(rebalancer.better(equal_stages(), plan)) << "two steps of m1 are too few";
  rebalancer.add(1, slow);
  const auto better = rebalancer.better(equal_stages(), plan);
  ASSERT_TRUE(better);
  EXPECT_EQ(own_filters(*better, 0, 0).count, 75) << "the first steps do not count";
  EXPECT_FALSE(rebalancer.better(equal_stages(), plan)) << "times count once";
  for (int step = 0; step < 5; ++step) {
    rebalancer.add(0, as_timed);
    rebalancer.add(1, slow);
  }
  EXPECT_FALSE(rebalancer.better(equal_stages(), plan)) << "after a move twice as many steps are measured";
  rebalancer.add(0, as_timed);
  rebalancer.add(1, slow);
  EXPECT_TRUE(rebalancer.better(equal_stages(), plan));
}

TEST(Rebalancers, DoNotWaitForMembersWithoutTiles) {
  Plan plan = equal_shares(3);
  for (StagePlan& stage : plan.stages) stage = stage_plan({50, 0, 50}, micro_batch_size(plan));
  const MemberProfile each = member("m", 0.1, 0.1);
  Rebalancer rebalancer({.profiles = {each, each, each}, .first_steps = 1});
  rebalancer.begin(plan);
  for (int step = 0; step < 3; ++step) {
    rebalancer.add(0, {5.0, 5.0});
    rebalancer.add(2, {15.0, 15.0});
  }
  EXPECT_TRUE(rebalancer.better(equal_stages(), plan));
}

TEST(Rebalance, KeepsTheFormOfThePlan) {
  Plan plan = equal_shares(2);
  plan.exchange = Exchange::ring;
  set_micro_batches(plan, 4);
  plan.wire = NumberType::bf16;
  const auto better = rebalanced(equal_stages(), plan, {member("m0", 0.1, 0.1), member("m1", 0.3, 0.3)}, 0.05);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->exchange, Exchange::ring);
  EXPECT_EQ(better->micro_batches, 4);
  EXPECT_EQ(better->wire, NumberType::bf16);
}

}  // namespace
}  // namespace convoy
