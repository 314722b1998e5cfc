// Tests what members of stages cut along samples send one another besides maps: statistics of batch norms, and sums of
// gradients.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/shard_state.hpp"
#include "plan/choose.hpp"
#include "plan/planner.hpp"
#include "plan/task_graph.hpp"
#include "tests/plan/tiled_plans.hpp"

namespace convoy {
namespace {

/// Returns the seconds of a step of a plan in four rows, in which each pass of a stage takes a second and messages take
/// `latency`.
double seconds_in_rows(const std::vector<Stage>& trunk, Exchange exchange, double latency) {
  const Plan plan = plan_of({"", exchange, 1, 4, false, {6, 6, 6, 6}, kSamples}, trunk);
  const TaskGraph graph = make_task_graph(plan, trunk);
  ClusterModel cluster;
  cluster.links.assign(static_cast<std::size_t>(graph.nodes), {1e15, 1e15});
  cluster.byte_costs.resize(static_cast<std::size_t>(graph.nodes));
  cluster.latency = latency;
  cluster.compute = [](const Task& task) {
    const bool pass = task.kind == TaskKind::forward || task.kind == TaskKind::backward_input ||
                      task.kind == TaskKind::backward_filters;
    return pass ? 1.0 : 0.0;
  };
  return simulate(graph, plan, trunk, cluster).seconds;
}

/// Joining statistics takes one message in a ring and two in a star. In the backward pass it is hidden behind the
/// gradients of the weights of the stage behind, for the last batch norm of a stage.
TEST(StatisticsOfBatchNorms, TakeTheTimeOfTheirMessages) {
  constexpr double kLatency = 0.125;
  std::vector<Stage> one = chain();
  one[1].after.emplace_back(BatchNorm{.name = "norm"});
  std::vector<Stage> two = one;
  two[1].after.emplace_back(BatchNorm{.name = "another"});
  for (const auto& [exchange, messages] : {std::pair{Exchange::ring, 1.0}, std::pair{Exchange::star, 2.0}}) {
    const double without = seconds_in_rows(chain(), exchange, kLatency);
    EXPECT_NEAR(seconds_in_rows(one, exchange, kLatency) - without, messages * kLatency, 1e-6);
    EXPECT_NEAR(seconds_in_rows(two, exchange, kLatency) - without, 3 * messages * kLatency, 1e-6);
  }
}

TEST(StatisticsOfBatchNorms, TravelInFullPrecision) {
  Plan plan = plan_of({"", Exchange::star, 1, 4, false, {6, 6, 6, 6}, kSamples}, normalised_chain());
  plan.wire = NumberType::int8;
  const TaskGraph graph = make_task_graph(plan, normalised_chain());
  int sends = 0;
  for (const Task& task : graph.tasks) {
    if (!carries_statistics(task)) continue;
    ++sends;
    EXPECT_EQ(wire_type(task, plan), NumberType::fp32);
    EXPECT_EQ(values_of(task, normalised_chain()), 2U * static_cast<std::size_t>(task.filters.count));
  }
  EXPECT_EQ(sends, 3 * 2 * 2 * 4)
      << "of three batch norms, forward and backward, to the master and back, for four slaves";
}

/// Returns the bytes that each of four members with equal rows and shares of the owners sends in a step for the
/// weights.
double bytes_of_weights(NumberType wire, const std::vector<int>& unequal) {
  const std::vector<Stage> trunk{pooled_stage("conv1", 3, 16, 8), pooled_stage("conv2", 8, 8, 12)};
  Plan plan = plan_of({"", Exchange::ring, 1, 4, false, {6, 6, 6, 6}, kSamples}, trunk);
  plan.wire = wire;
  plan.unequal = unequal;
  double bytes = 0.0;
  for (const Task& task : make_task_graph(plan, trunk).tasks) {
    if (task.kind == TaskKind::send && concerns_weights(task)) bytes += bytes_of(task, plan, trunk);
  }
  return bytes / 4.0;
}

/// (N - 1) / N of the weights travel as parts of gradients, and as much as sums.
TEST(SumsOfGradients, TakeTheBytesOfTheWire) {
  double weights = 0.0;
  for (const Stage& stage : {pooled_stage("conv1", 3, 16, 8), pooled_stage("conv2", 8, 8, 12)}) {
    for (const ParameterSpec& each : parameters_of(stage, stage.conv.filters))
      weights += static_cast<double>(each.shape.size());
  }
  const double some = 0.75 * weights;
  EXPECT_EQ(bytes_of_weights(NumberType::fp32, {}), some * (4 + 4));
  EXPECT_EQ(bytes_of_weights(NumberType::bf16, {}), some * (2 + 2));
  EXPECT_EQ(bytes_of_weights(NumberType::bf16, {0, 1, 2, 3}), some * (2 + 4)) << "weights instead of sums";
  // Two of the four exchange sums with each other: 2 of the 12 ways.
  EXPECT_DOUBLE_EQ(bytes_of_weights(NumberType::bf16, {1, 3}), some * (2 + (2 * 2 + 10 * 4) / 12.0));
}

TEST(SumsOfGradients, GoToMembersWhoseProfilesAllowIt) {
  const std::vector<Stage> trunk = chain();
  std::vector<MemberProfile> members;
  for (int m = 0; m < 3; ++m) {
    members.push_back({.name = "m" + std::to_string(m), .same_bits = m != 1});
    for (const Stage& stage : trunk) members.back().stages.push_back({{.filters = stage.conv.filters, .forward = 1.0}});
  }
  EXPECT_EQ(make_plan(trunk, kTiledBatch, members).unequal, std::vector<int>{1});
  const Wishes wishes{.layout = Layout::samples};
  EXPECT_EQ(choose_plan(trunk, kTiledBatch, members, wishes, {}).plan.unequal, std::vector<int>{1});
}

}  // namespace
}  // namespace convoy
