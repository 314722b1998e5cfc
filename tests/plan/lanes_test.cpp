// Tests that values which a computation waits for do not wait for weights.

#include <gtest/gtest.h>

#include "plan/simulate.hpp"

namespace convoy {
namespace {

/// 80 maps of 4 x 4, and 80 filters with 101 parameters each.
std::vector<Stage> trunk() {
  return {
      {.name = "conv1", .channels = 4, .height = 8, .width = 8, .conv = {.filters = 80, .kernel_h = 5, .kernel_w = 5}}};
}

/// Node 0 sends weights to node 1, then maps that node 1 computes on.
TaskGraph weights_before_maps() {
  TaskGraph graph{.nodes = 3, .master = 2, .tasks = {}};
  for (const Cargo cargo : {Cargo::weights, Cargo::maps}) {
    graph.tasks.push_back(
        {.kind = TaskKind::send, .node = 0, .filters = {0, 80}, .samples = {0, 1}, .cargo = cargo, .to = 1});
  }
  graph.tasks.push_back({.kind = TaskKind::forward, .node = 1, .filters = {0, 80}, .samples = {0, 1}, .after = {1}});
  return graph;
}

TEST(Lanes, WeightsDoNotHoldMapsUp) {
  constexpr double kRate = 1e3;  // bytes per second
  constexpr double kComputing = 100.0;
  const Plan plan = proportional_plan(trunk(), 1, {"a", "b"}, {1.0, 1.0});
  const TaskGraph graph = weights_before_maps();
  const double weights = bytes_of(graph.tasks[0], plan, trunk());
  const double maps = bytes_of(graph.tasks[1], plan, trunk());
  ASSERT_EQ(weights, 4.0 * 80 * 101);
  ASSERT_EQ(maps, 4.0 * 80 * 16);
  const ClusterModel cluster{.links = std::vector<NodeLink>(3, {kRate, kRate}),
                             .byte_costs = std::vector<ByteCost>(3),
                             .compute = [](const Task&) { return kComputing; }};
  // Both lanes share the card.
  EXPECT_NEAR(simulate(graph, plan, trunk(), cluster).first, 2 * maps / kRate + kComputing, 1e-6);
}

TEST(Lanes, AreForSendsBetweenSlaves) {
  const TaskGraph graph = weights_before_maps();
  EXPECT_EQ(lane_of(graph.tasks[0], graph), Lane::bulk);
  EXPECT_EQ(lane_of(graph.tasks[1], graph), Lane::prompt);
  // The master has one connection to each slave.
  for (const Cargo cargo : {Cargo::weights, Cargo::filter_part, Cargo::maps}) {
    const Task there{.kind = TaskKind::send, .node = 0, .cargo = cargo, .to = 2};
    const Task back{.kind = TaskKind::send, .node = 2, .cargo = cargo, .to = 0};
    EXPECT_EQ(lane_of(there, graph), Lane::prompt);
    EXPECT_EQ(lane_of(back, graph), Lane::prompt);
  }
}

/// Slave b computes only what a second head reads, so that images pass it over in a test.
TEST(Lanes, AreThoseOfTestsAsWell) {
  const Stage first{.name = "first", .channels = 2, .height = 4, .width = 4, .conv = {.filters = 3}, .after = {}};
  Stage side{.name = "side", .channels = 3, .height = 4, .width = 4, .conv = {.filters = 2}, .after = {}};
  side.from = {{.stage = 0, .channels = {0, 3}}};
  Stage last = side;
  last.name = "last";
  const std::vector<Stage> trunk{first, side, last};
  Plan plan{.batch = 4,
            .members = {"a", "b", "c"},
            .stages = {stage_plan({3}, 4), stage_plan({0, 2}, 4), stage_plan({0, 0, 2}, 4)},
            .exchange = Exchange::ring,
            .relayed = true};
  plan.stages[0].replicated = true;
  validate(plan, trunk);
  const std::set<std::pair<int, Lane>> all = slaves_sent_to(plan, trunk, 0);
  EXPECT_TRUE(all.contains({1, Lane::prompt})) << "images of a training step";
  EXPECT_TRUE(all.contains({2, Lane::prompt})) << "images of a test";
  EXPECT_TRUE(all.contains({2, Lane::bulk})) << "weights";
}

}  // namespace
}  // namespace convoy
