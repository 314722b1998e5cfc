#include "plan/task_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "nets/graph/net.hpp"
#include "plan/simulate.hpp"
#include "tests/plan/pooled_stage.hpp"
#include "tests/support/graph_net.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// The stages of 500:1500 for CIFAR-10.
std::vector<Stage> trunk_of_500_1500() {
  return {pooled_stage("conv1", 3, 32, 500), pooled_stage("conv2", 500, 16, 1500)};
}

struct PlanCase {
  std::string name;
  int slaves;
  bool own;  ///< whether the master has a share too
  Exchange exchange;
  bool replicated;
  int micro_batches;
};

void PrintTo(const PlanCase& c, std::ostream* out) { *out << c.name; }

Plan plan_of(const PlanCase& c, const std::vector<Stage>& trunk, int batch) {
  std::vector<std::string> members;
  std::vector<double> speeds;
  for (int i = 0; i < c.slaves; ++i) {
    members.push_back(fmt::format("slave{}", i));
    speeds.push_back(1.0 + i % 3);
  }
  if (c.own) {
    members.emplace_back("master");
    speeds.push_back(1.0);
  }
  Plan plan = proportional_plan(trunk, batch, members, speeds);
  plan.exchange = c.exchange;
  set_micro_batches(plan, c.micro_batches);
  plan.stages[0].replicated = c.replicated;
  validate(plan, trunk);
  return plan;
}

class TaskGraphs : public testing::TestWithParam<PlanCase> {};

TEST_P(TaskGraphs, WaitOnlyForWhatComesBefore) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  const Plan plan = plan_of(GetParam(), trunk, 24);
  const TaskGraph graph = make_task_graph(plan, trunk);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    EXPECT_TRUE(task.node >= 0 && task.node < graph.nodes);
    EXPECT_EQ(task.kind == TaskKind::send, task.to >= 0);
    EXPECT_TRUE(task.to < graph.nodes && task.to != task.node);
    for (const int before : task.after) EXPECT_LT(before, static_cast<int>(i));
    // A node computes or sends only values that it has computed or received.
    for (const int before : task.after) {
      const Task& earlier = graph.tasks[before];
      EXPECT_EQ(earlier.kind == TaskKind::send ? earlier.to : earlier.node, task.node);
    }
  }
}

/// The channels of a stage's maps that a node has computed or received, by (stage, micro-batch, node).
using Have = std::map<std::tuple<int, int, int>, std::vector<FilterRange>>;

bool covers(const std::vector<FilterRange>& ranges, FilterRange wanted) {
  for (int channel = wanted.first; channel < wanted.first + wanted.count; ++channel) {
    const auto there = [&](const FilterRange& range) { return common(range, {channel, 1}).count == 1; };
    if (std::ranges::none_of(ranges, there)) return false;
  }
  return true;
}

/// Expects that every task has its inputs and that the head has all outputs.
void expect_inputs_brought(const Plan& plan, const std::vector<Stage>& trunk) {
  const TaskGraph graph = make_task_graph(plan, trunk);
  Have have;
  for (int m = 0; m < plan.micro_batches; ++m) have[{Source::kImages, m, graph.master}] = {{0, trunk[0].channels}};
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::send && task.cargo == Cargo::maps) {
      EXPECT_TRUE(covers(have[{task.stage, task.micro_batch, task.node}], task.filters))
          << "the sender must have the filters";
      have[{task.stage, task.micro_batch, task.to}].push_back(task.filters);
    }
    if (task.kind == TaskKind::forward) {
      for (const Read& read : reads_for(trunk, static_cast<std::size_t>(task.stage), task.filters)) {
        if (read.stage == Source::kZeros) continue;
        EXPECT_TRUE(covers(have[{read.stage, task.micro_batch, task.node}], read.channels))
            << "node " << task.node << " computes " << trunk[task.stage].name;
      }
    }
    if (task.kind == (plan.exchange == Exchange::thesis ? TaskKind::layers : TaskKind::forward)) {
      have[{task.stage, task.micro_batch, task.node}].push_back(task.filters);
    }
    if (task.kind != TaskKind::head) continue;
    for (const int output : outputs_of(trunk)) {
      const FilterRange all{0, trunk[output].conv.filters};
      EXPECT_TRUE(covers(have[{output, task.micro_batch, graph.master}], all));
    }
  }
}

TEST_P(TaskGraphs, BringWholeInputsToWhoeverComputesAndWholeOutputsToTheMaster) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  expect_inputs_brought(plan_of(GetParam(), trunk, 24), trunk);
}

TEST_P(TaskGraphs, DoSoWithBranches) {
  if (GetParam().exchange == Exchange::thesis) GTEST_SKIP() << "the thesis' scheme has no replicated stages";
  const std::vector<Stage> trunk = cut(parse_net(kGraphNet, "graph.yaml")).trunk;
  const Plan plan = plan_of(GetParam(), trunk, 24);
  expect_inputs_brought(plan, trunk);
  // In every stage that has a gradient, each owner receives the gradients of all its filters.
  Have have;
  for (const Task& task : make_task_graph(plan, trunk).tasks) {
    const bool sent = task.kind == TaskKind::send && task.cargo == Cargo::gradient;
    if (sent || task.kind == TaskKind::sum) {
      have[{task.stage, task.micro_batch, sent ? task.to : task.node}].push_back(task.filters);
    }
    if (task.kind != TaskKind::backward_input || everywhere(plan.stages[task.stage])) {
      continue;
    }
    const std::vector<int> outputs = outputs_of(trunk);
    const bool of_head = std::ranges::find(outputs, task.stage) != outputs.end();
    EXPECT_TRUE(of_head || covers(have[{task.stage, task.micro_batch, task.node}], task.filters));
  }
}

TEST_P(TaskGraphs, SumEveryPartOfEveryChannelOnce) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  const Plan plan = plan_of(GetParam(), trunk, 24);
  const TaskGraph graph = make_task_graph(plan, trunk);
  int channels = 0;
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::sum) continue;
    channels += task.filters.count;
    EXPECT_EQ(task.after.size(), tiles_of(plan.stages[1]).size()) << "each shard sends a part";
  }
  EXPECT_EQ(channels, 500 * plan.micro_batches);
}

TEST_P(TaskGraphs, ComputeEveryPassOfEveryShard) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  const Plan plan = plan_of(GetParam(), trunk, 24);
  std::map<TaskKind, int> filters;
  for (const Task& task : make_task_graph(plan, trunk).tasks) {
    if (task.stage == 1 || !plan.stages[0].replicated || task.kind != TaskKind::forward) {
      filters[task.kind] += task.filters.count;
    }
  }
  const int forward = plan.stages[0].replicated ? 1500 : 2000;
  EXPECT_EQ(filters[TaskKind::forward], forward * plan.micro_batches);
  EXPECT_EQ(filters[TaskKind::backward_input], 2000 * plan.micro_batches);
  EXPECT_EQ(filters[TaskKind::backward_filters], 2000);
}

INSTANTIATE_TEST_SUITE_P(Plans, TaskGraphs,
                         testing::Values(PlanCase{"OneSlave", 1, false, Exchange::star, false, 1},
                                         PlanCase{"Star", 3, false, Exchange::star, false, 4},
                                         PlanCase{"StarWithMaster", 2, true, Exchange::star, false, 3},
                                         PlanCase{"Ring", 3, false, Exchange::ring, false, 1},
                                         PlanCase{"RingWithMaster", 3, true, Exchange::ring, false, 2},
                                         PlanCase{"Replicated", 4, false, Exchange::ring, true, 8},
                                         PlanCase{"ReplicatedWithMaster", 4, true, Exchange::ring, true, 2},
                                         PlanCase{"Thesis", 3, false, Exchange::thesis, false, 1},
                                         PlanCase{"ThesisWithMaster", 2, true, Exchange::thesis, false, 1}),
                         [](const auto& info) { return info.param.name; });

// ---- traffic, in KiB per image -------------------------------------------------------------------------------------

constexpr double kImage = 3.0;  ///< 3 x 32 x 32 pixels, of a byte each

/// The bytes per image that the master sends and receives.
std::pair<double, double> traffic(const PlanCase& c, NumberType wire) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  Plan plan = plan_of(c, trunk, 24);
  plan.wire = wire;
  const TaskGraph graph = make_task_graph(plan, trunk);
  const Traffic master = traffic_of(graph, plan, trunk)[graph.master];
  return {master.sent / 24 / 1024, master.received / 24 / 1024};
}

TEST(Traffic, OfAStar) {
  // The master sends images, the maps of conv1 that each slave lacks, and gradients to their owners. It receives maps
  // and parts of gradients from all.
  const auto [out, in] = traffic({"", 4, false, Exchange::star, false, 1}, NumberType::fp32);
  EXPECT_NEAR(out, 4 * kImage + 3 * 500 + 500 + 375, 0.5);
  EXPECT_NEAR(in, 500 + 375 + 4 * 500, 1.0);
}

TEST(Traffic, OfARing) {
  const auto [out, in] = traffic({"", 4, false, Exchange::ring, false, 1}, NumberType::fp32);
  EXPECT_NEAR(out, 4 * kImage + 375, 0.5);
  EXPECT_NEAR(in, 375, 1.0);
}

TEST(Traffic, OfARingWithImagesRelayedIsNotMoreForMoreSlaves) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  for (const int slaves : {1, 4, 9}) {
    Plan plan = plan_of({"", slaves, false, Exchange::ring, false, 4}, trunk, 24);
    plan.relayed = true;
    validate(plan, trunk);
    const TaskGraph graph = make_task_graph(plan, trunk);
    const double sent = traffic_of(graph, plan, trunk)[graph.master].sent;
    EXPECT_NEAR(sent / 24 / 1024, kImage + 375, 0.5);
  }
}

TEST(Traffic, OfTheThesis) {
  // The master sends images, inputs and gradients of raw maps, and receives raw maps and parts. Weights and biases
  // travel both ways once in a batch of 24.
  const double weights = (500 * 75 + 500 + 1500 * 12500 + 1500) * 4.0 / 1024 / 24;
  const auto [out, in] = traffic({"", 4, false, Exchange::thesis, false, 1}, NumberType::fp32);
  EXPECT_NEAR(out, 4 * kImage + 4 * 500 + 2000 + 1500 + weights, 0.5);
  EXPECT_NEAR(in, 2000 + 1500 + 4 * 500 + weights, 1.0);
}

TEST(Traffic, IsHalfIn16BitsExceptForImages) {
  const PlanCase ring{"", 4, false, Exchange::ring, true, 2};
  const double images = 4 * kImage;
  EXPECT_NEAR(traffic(ring, NumberType::bf16).first - images, (traffic(ring, NumberType::fp32).first - images) / 2,
              0.1);
  EXPECT_NEAR(traffic(ring, NumberType::fp16).second, traffic(ring, NumberType::fp32).second / 2, 0.5);
}

// ---- simulation -----------------------------------------------------------------------------------------------------

constexpr double kFlops = 1e11;

ClusterModel cluster_of(const std::vector<Stage>& trunk, const Plan& plan, int nodes, double bytes_per_second) {
  ClusterModel cluster;
  cluster.links.assign(static_cast<std::size_t>(nodes), {bytes_per_second, bytes_per_second});
  cluster.byte_costs.resize(static_cast<std::size_t>(nodes));
  cluster.compute = [&trunk, &plan](const Task& task) {
    const bool batch = task.kind == TaskKind::backward_filters;
    if (!batch && task.kind != TaskKind::forward && task.kind != TaskKind::backward_input) return 0.0;
    const int samples = batch ? plan.batch : plan.batch / plan.micro_batches;
    return conv_flops(trunk[task.stage], samples, task.filters.count) / kFlops;
  };
  return cluster;
}

double seconds_of(const PlanCase& c, double bytes_per_second) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  Plan plan = plan_of(c, trunk, 24);
  const TaskGraph graph = make_task_graph(plan, trunk);
  return simulate(graph, plan, trunk, cluster_of(trunk, plan, graph.nodes, bytes_per_second)).seconds;
}

TEST(Simulation, OfOneSlaveBehindAFastLinkIsItsComputing) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  double flops = 0.0;
  for (const Stage& stage : trunk) flops += 3.0 * conv_flops(stage, 24, stage.conv.filters);
  EXPECT_NEAR(seconds_of({"", 1, false, Exchange::ring, false, 1}, 1e15), flops / kFlops, 1e-6);
  EXPECT_NEAR(seconds_of({"", 1, false, Exchange::star, false, 4}, 1e15), flops / kFlops, 1e-6);
}

TEST(Simulation, OfASlowLinkIsItsTransfer) {
  // The master's network card is the busiest: in a star it sends to all slaves.
  const double bytes = (4 * 12 + 4 * 500 + 375) * 1024.0 * 24;
  const double seconds = seconds_of({"", 4, false, Exchange::star, false, 1}, 1e4);
  EXPECT_GT(seconds, bytes / 1e4);
  EXPECT_LT(seconds, 2.5 * bytes / 1e4) << "the bytes travel to the slaves and back";
}

TEST(Simulation, TakesNoLessThanTheBusiestProcessorOrCard) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  for (const double bytes_per_second : {1e4, 1e7, 1e9}) {
    for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
      for (const int micro_batches : {1, 4}) {
        Plan plan = plan_of({"", 3, false, exchange, false, micro_batches}, trunk, 24);
        const TaskGraph graph = make_task_graph(plan, trunk);
        const ClusterModel cluster = cluster_of(trunk, plan, graph.nodes, bytes_per_second);
        const double least = least_step(graph, plan, trunk, cluster).seconds;
        const double seconds = simulate(graph, plan, trunk, cluster).seconds;
        EXPECT_GE(seconds, 0.999 * least);
        EXPECT_LT(seconds, 3.0 * least);
      }
    }
  }
}

TEST(Simulation, MicroBatchesHideTransfer) {
  const double whole = seconds_of({"", 4, false, Exchange::ring, false, 1}, 5e7);
  const double in_parts = seconds_of({"", 4, false, Exchange::ring, false, 8}, 5e7);
  EXPECT_LT(in_parts, 0.95 * whole);
}

TEST(Simulation, OfAStepBeginsBeforeTheStepBeforeHasEndedEverywhere) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  Plan plan = plan_of({"", 4, false, Exchange::ring, false, 1}, trunk, 24);
  const TaskGraph graph = make_task_graph(plan, trunk);
  const Simulated steps = simulate(graph, plan, trunk, cluster_of(trunk, plan, graph.nodes, 5e7));
  EXPECT_LT(steps.seconds, 0.99 * steps.first) << "images travel while the step before is computed";
  double busiest = 0.0;
  for (const NodeUse& use : steps.nodes) busiest = std::max(busiest, use.compute);
  EXPECT_GE(steps.seconds, busiest - 1e-9);
}

TEST(Simulation, OfARingOutrunsThatOfAStar) {
  EXPECT_LT(seconds_of({"", 4, false, Exchange::ring, false, 4}, 2e7),
            seconds_of({"", 4, false, Exchange::star, false, 4}, 2e7));
}

TEST(Simulation, SendersToOneReceiverShareItsCard) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  Plan plan = plan_of({"", 2, false, Exchange::ring, false, 1}, trunk, 24);
  // Two sends of 1.5 and 3 MB go to node 2 at the same time.
  TaskGraph graph{.nodes = 3, .master = 2, .tasks = {}};
  for (const int node : {0, 1}) {
    graph.tasks.push_back({.kind = TaskKind::send,
                           .node = node,
                           .stage = 1,
                           .filters = {0, 250 * (node + 1)},
                           .samples = {0, 24},
                           .cargo = Cargo::maps,
                           .to = 2});
  }
  const double small = bytes_of(graph.tasks[0], plan, trunk);
  ClusterModel cluster = cluster_of(trunk, plan, 3, 1e6);
  cluster.latency = 0.25;
  const Simulated steps = simulate(graph, plan, trunk, cluster);
  EXPECT_NEAR(steps.first + steps.seconds, 2 * 3 * small / 1e6 + 0.25, 1e-5) << "the card is busy until all has come";
  EXPECT_DOUBLE_EQ(steps.nodes[2].bytes_in, 3 * small);
}

TEST(Simulation, SlowsWhoeverComputesWhileBytesPass) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  const Plan plan = plan_of({"", 2, false, Exchange::star, false, 1}, trunk, 24);
  TaskGraph graph{.nodes = 2, .master = 1, .tasks = {}};
  graph.tasks.push_back({.kind = TaskKind::send,
                         .node = 0,
                         .stage = 1,
                         .filters = {0, 250},
                         .samples = {0, 24},
                         .cargo = Cargo::maps,
                         .to = 1});
  graph.tasks.push_back({.kind = TaskKind::forward, .node = 1, .stage = 0, .filters = {0, 8}});
  const double bytes = bytes_of(graph.tasks[0], plan, trunk);
  ClusterModel cluster = cluster_of(trunk, plan, 2, bytes);  // the send takes a second
  cluster.compute = [](const Task&) { return 2.0; };
  cluster.byte_costs[1].in = 0.25 / bytes;
  const Simulated steps = simulate(graph, plan, trunk, cluster);
  EXPECT_NEAR(steps.first + steps.seconds, 2 * 2.25, 1e-6);
}

// ---- plans ----------------------------------------------------------------------------------------------------------

TEST(Plans, NameWhatCannotBe) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  const Plan plan = plan_of({"", 2, false, Exchange::ring, false, 1}, trunk, 24);
  const auto expect = [&](Plan wrong, const std::string& text) {
    EXPECT_THAT([&] { validate(wrong, trunk); }, testing::ThrowsMessage<Error>(HasSubstr(text)));
  };
  Plan parts = plan;
  parts.micro_batches = 5;
  expect(parts, "batch 24 is not divisible into 5 equal micro-batches");
  Plan star = plan;
  star.exchange = Exchange::star;
  star.stages[0].replicated = true;
  expect(star, "conv1 cannot be replicated");
  Plan relayed = star;
  relayed.stages[0].replicated = false;
  relayed.relayed = true;
  expect(relayed, "slaves can relay images only in the ring");
  Plan thesis = plan;
  thesis.exchange = Exchange::thesis;
  thesis.micro_batches = 2;
  expect(thesis, "sends whole batches");
  Plan last = plan;
  last.stages[1].replicated = true;
  expect(last, "conv2 cannot be replicated");
}

TEST(Plans, SurviveJson) {
  const std::vector<Stage> trunk = trunk_of_500_1500();
  Plan plan = plan_of({"", 3, true, Exchange::ring, true, 4}, trunk, 24);
  plan.wire = NumberType::bf16;
  EXPECT_EQ(plan_from_json(to_json(plan), "plan.json"), plan);
  EXPECT_THAT([] { exchange_from("mesh"); },
              testing::ThrowsMessage<Error>(HasSubstr("expected star or ring or thesis")));
  EXPECT_THAT([] { number_type_from("int4"); },
              testing::ThrowsMessage<Error>(HasSubstr("expected fp32 or bf16 or fp16")));
}

}  // namespace
}  // namespace convoy
