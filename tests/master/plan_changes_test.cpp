// Plans that change in the course of a run: shares that move to faster members take the state of their weights along.

#include <gtest/gtest.h>

#include <utility>

#include "tests/master/small_cluster.hpp"

namespace convoy {
namespace {

/// Trains by a plan that takes the second of two slaves for as fast as the first, though it is many times slower.
/// Checks the result, and returns the plan by which the run ends, which the times that it measures have corrected.
Plan corrected_plan(const Plan& plan, const MemberProfile& alike) {
  const Cut cut = small_net();
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  // The second slave computes everything twice, by plain loops, so that it is slower even on a busy machine.
  SlaveThreads threads(lobby.endpoint(), 2, {"eigen", "check:reference,reference64"});
  const std::atomic<bool> stop{false};
  crew.gather(2, stop, [] {});
  Plan last;
  ClusterTrunk trunk(cut.trunk, plan, crew, nullptr, 20s, {.profiles = {alike, alike}, .first_steps = 5},
                     [&](const Plan& moved) { last = moved; });
  const Result result = train_some(trunk, cut);
  EXPECT_EQ(trunk.plan(), last);
  expect_close(result, train_local("eigen"));
  return last;
}

TEST(ClustersOutOfBalance, MoveFiltersToWhoIsFaster) {
  const Plan plan = proportional_plan(small_net().trunk, kBatch, {"a", "b"}, {1, 1});
  const Plan last = corrected_plan(plan, {.stages = {{{1, 0.01}, {5, 0.05}}, {{1, 0.01}, {9, 0.09}}}});
  ASSERT_FALSE(last.stages.empty());
  const auto filters = [](const Plan& of, int member) {
    return own_filters(of, 0, member).count + own_filters(of, 1, member).count;
  };
  EXPECT_GT(filters(last, 0), filters(plan, 0));
  EXPECT_LT(filters(last, 1), filters(plan, 1));
}

TEST(ClustersOutOfBalance, MoveSamplesToWhoIsFaster) {
  const std::vector<Stage> trunk = small_net().trunk;
  Plan plan = proportional_plan(trunk, kBatch, {"a", "b"}, {1, 1});
  ASSERT_TRUE(cut_by_samples(plan, trunk, trunk.size(), {1, 1}));
  const Plan last = corrected_plan(plan, {.stages = {{{5, 0.05}}, {{9, 0.09}}}});
  ASSERT_FALSE(last.stages.empty());
  for (const StagePlan& stage : last.stages) {
    EXPECT_EQ(tile_of(stage, 0).samples.count, 3);
    EXPECT_EQ(tile_of(stage, 1).samples.count, 1);
  }
}

TEST(ClustersThatChangePlans, TakeTheStateOfFiltersAlong) {
  const Cut cut = small_net();
  const auto device = make_device("eigen", {.threads = 1});
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  SlaveThreads threads(lobby.endpoint(), 3, {"eigen"});
  const std::atomic<bool> stop{false};
  crew.gather(3, stop, [] {});
  const auto plan_of = [&](const std::vector<double>& shares, Exchange exchange, bool replicated) {
    Plan plan = proportional_plan(cut.trunk, kBatch, {"a", "b", "c", "master"}, shares);
    plan.exchange = exchange;
    plan.stages[0].replicated = replicated;
    return plan;
  };
  ClusterTrunk trunk(cut.trunk, plan_of({1, 5, 2, 1}, Exchange::ring, false), crew, device.get(), 20s);
  const Result result = train_some(trunk, cut, [&](int step) {
    if (step == 3) trunk.change_plan(plan_of({4, 1, 1, 3}, Exchange::ring, false));
    if (step == 5) trunk.change_plan(plan_of({3, 0, 2, 4}, Exchange::ring, true));
    if (step == 10) trunk.change_plan(plan_of({0, 1, 1, 0}, Exchange::star, false));
    if (step == 15) trunk.change_plan(plan_of({2, 1, 1, 1}, Exchange::thesis, false));
  });
  expect_close(result, train_local("eigen"));
  crew.dismiss("the test finished");
}

/// Where rows of samples move, members that updated the weights have all of their state.
TEST(ClustersThatChangePlans, KeepTheStateWhereRowsMove) {
  const Cut cut = small_net();
  for (const std::vector<int>& unequal : {std::vector<int>{}, std::vector<int>{1}}) {
    for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
      const auto device = make_device("eigen", {.threads = 1});
      Lobby lobby("tcp://127.0.0.1:*", "test");
      Crew crew(lobby);
      SlaveThreads threads(lobby.endpoint(), 3, {"eigen"});
      const std::atomic<bool> stop{false};
      crew.gather(3, stop, [] {});
      const auto plan_of = [&](const std::vector<double>& shares, bool by_samples) {
        Plan plan = proportional_plan(cut.trunk, kBatch, {"a", "b", "c", "master"}, shares);
        plan.exchange = exchange;
        plan.unequal = unequal;
        if (by_samples) cut_by_samples(plan, cut.trunk, cut.trunk.size(), shares);
        EXPECT_EQ(has_several_rows(plan.stages[0]), by_samples);
        return plan;
      };
      ClusterTrunk trunk(cut.trunk, plan_of({1, 2, 1, 0}, true), crew, device.get(), 20s);
      const Result before = train_some(trunk, cut);
      expect_close(before, train_local("eigen"));
      for (const auto& [shares, by_samples] : {std::pair<std::vector<double>, bool>{{2, 1, 1, 0}, true},
                                               {{1, 0, 1, 2}, true},
                                               {{0, 2, 1, 1}, false},
                                               {{1, 1, 1, 1}, true}}) {
        trunk.change_plan(plan_of(shares, by_samples));
        expect_equal({trunk.snapshot(), before.loss}, before);
      }
      crew.dismiss("the test finished");
    }
  }
}

}  // namespace
}  // namespace convoy
