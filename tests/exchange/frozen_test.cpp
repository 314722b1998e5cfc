// Trains nets whose first layers are frozen under plans, and looks at what their steps compute and send.

#include <gtest/gtest.h>

#include <algorithm>

#include "nets/graph/net.hpp"
#include "tests/exchange/nodes.hpp"
#include "tests/support/plain_trunk.hpp"
#include "tests/support/tiles.hpp"

namespace convoy {
namespace {

constexpr int kFrozenBatch = 12;

/// A net of three stages with batch norms, of which the first `frozen` are frozen.
Stages partly_frozen(int frozen) {
  Net net = parse_net(R"(name: test
input: {channels: 2, height: 9, width: 8}
layers:
  - {name: conv1, type: conv, filters: 6, kernel: 3, pad: 1}
  - {name: bn1, type: batch_norm}
  - {name: relu1, type: relu}
  - {name: conv2, type: conv, filters: 12, kernel: 3, pad: 1, bias: false}
  - {name: bn2, type: batch_norm}
  - {name: relu2, type: relu}
  - {name: pool2, type: max_pool, kernel: 2}
  - {name: conv3, type: conv, filters: 7, kernel: 3, rate: 0.5}
  - {name: bn3, type: batch_norm}
  - {name: out, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
)",
                      "test.yaml");
  for (Layer& layer : net.layers) {
    for (int number = 1; number <= frozen; ++number) {
      if (has_weights(layer) && layer.name.ends_with(std::to_string(number))) layer.rate = 0.0F;
    }
  }
  return cut(net).trunk;
}

Images some_images(const Stages& trunk, int step) {
  return noise_images(input_shape(trunk[0], kFrozenBatch), 3, 300 + static_cast<std::uint64_t>(step));
}

template <class Network, class Backward>
Result trained_steps(Network& network, const Stages& trunk, const Backward& backward,
                     const std::function<std::vector<ShardState>()>& states) {
  Result result;
  for (int step = 0; step < 3; ++step) {
    backward(step);
    network.update(kSgd);
  }
  result.tested = network.forward(some_images(trunk, 3), {});
  result.states = states();
  return result;
}

Result on_one_device(const Stages& trunk) {
  const auto device = make_device("cpu", {.threads = 1});
  PlainTrunk local(trunk, input_shape(trunk[0], kFrozenBatch), *device);
  local.load(start(trunk));
  const auto step = [&](int number) {
    local.forward(some_images(trunk, number), pass_of(number));
    local.backward(pointers(gradients_of(local, trunk, number)));
  };
  return trained_steps(local, trunk, step, [&] { return local.snapshot(); });
}

/// Shares of 3 : 2 : 1, of filters or of samples.
Plan three_members(const Stages& trunk, Exchange exchange, bool samples) {
  Plan plan = proportional_plan(trunk, kFrozenBatch, member_names(3, false), {3.0, 2.0, 1.0});
  plan.exchange = exchange;
  set_micro_batches(plan, samples ? 2 : 3);
  if (samples) {
    EXPECT_TRUE(cut_by_samples(plan, trunk, trunk.size(), {3.0, 2.0, 1.0}));
  }
  validate(plan, trunk);
  return plan;
}

struct FrozenCase {
  Exchange exchange;
  bool samples;
};

class FrozenStages : public testing::TestWithParam<FrozenCase> {};

TEST_P(FrozenStages, TrainTheOthersAsOneDeviceDoes) {
  for (int frozen = 0; frozen < 3; ++frozen) {
    const Stages trunk = partly_frozen(frozen);
    const Plan plan = three_members(trunk, GetParam().exchange, GetParam().samples);
    Nodes nodes(plan, trunk, "cpu", 1, start(trunk));
    const auto step = [&](int number) { nodes.train(some_images(trunk, number), number); };
    const Result got = trained_steps(nodes, trunk, step, [&] { return nodes.states(); });
    expect_close(got, on_one_device(trunk), 1e-4F);
    const std::vector<ShardState> first = start(trunk);
    for (std::size_t s = 0; s < trunk.size(); ++s) {
      EXPECT_EQ(same_bits(got.states[s], first[s]), static_cast<int>(s) < frozen) << trunk[s].name;
    }
  }
}

/// A frozen beginning of a net is computed forward, and no task is left for it.
TEST_P(FrozenStages, HaveNoWayBack) {
  const Stages trunk = partly_frozen(2);
  const Plan plan = three_members(trunk, GetParam().exchange, GetParam().samples);
  const TaskGraph graph = make_task_graph(plan, trunk);
  int forward = 0;
  for (const Task& task : graph.tasks) {
    if (task.stage > 1) continue;
    forward += task.kind == TaskKind::forward ? 1 : 0;
    const bool needed = task.kind == TaskKind::forward || (task.kind == TaskKind::send && task.cargo == Cargo::maps);
    EXPECT_TRUE(needed) << "stage " << task.stage << " has a task of kind " << static_cast<int>(task.kind)
                        << " and cargo " << static_cast<int>(task.cargo);
  }
  EXPECT_EQ(forward, 2 * 3 * plan.micro_batches);

  const Stages all = partly_frozen(0);
  const auto traffic = [&](const Stages& stages) {
    double bytes = 0.0;
    for (const Traffic& each : traffic_of(make_task_graph(plan, stages), plan, stages)) bytes += each.sent;
    return bytes;
  };
  EXPECT_LT(traffic(trunk), 0.75 * traffic(all));
}

INSTANTIATE_TEST_SUITE_P(Plans, FrozenStages,
                         testing::Values(FrozenCase{kStar, false}, FrozenCase{kStar, true}, FrozenCase{kRing, false},
                                         FrozenCase{kRing, true}),
                         [](const auto& info) {
                           return std::string(info.param.exchange == kStar ? "Star" : "Ring") +
                                  (info.param.samples ? "Samples" : "Filters");
                         });

/// Where all stages are frozen, a step has no way back beyond the heads.
TEST(FrozenStages, MayBeAllOfTheTrunk) {
  const Stages trunk = partly_frozen(3);
  for (const bool samples : {false, true}) {
    const Plan plan = three_members(trunk, kRing, samples);
    Nodes nodes(plan, trunk, "cpu", 1, start(trunk));
    const auto step = [&](int number) { nodes.train(some_images(trunk, number), number); };
    const Result got = trained_steps(nodes, trunk, step, [&] { return nodes.states(); });
    const Result expected = on_one_device(trunk);
    expect_close(got, expected, 1e-4F);
    const std::vector<ShardState> first = start(trunk);
    for (std::size_t s = 0; s < trunk.size(); ++s) EXPECT_TRUE(same_bits(got.states[s], first[s])) << trunk[s].name;
  }
}

/// The scheme of the thesis computes and sends everything, and changes nothing that is frozen.
TEST(FrozenStages, StayAsTheyAreInTheThesis) {
  Net net = parse_net(R"(name: test
input: {channels: 2, height: 9, width: 8}
layers:
  - {name: conv1, type: conv, filters: 6, kernel: 3, freeze: true}
  - {name: relu1, type: relu}
  - {name: conv2, type: conv, filters: 8, kernel: 3}
  - {name: out, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
)",
                      "test.yaml");
  const Stages trunk = cut(net).trunk;
  Plan plan = proportional_plan(trunk, kFrozenBatch, member_names(3, false), {3.0, 2.0, 1.0});
  set_exchange(plan, Exchange::thesis);
  Nodes nodes(plan, trunk, "cpu", 1, start(trunk));
  const auto step = [&](int number) { nodes.train(some_images(trunk, number), number); };
  const Result got = trained_steps(nodes, trunk, step, [&] { return nodes.states(); });
  expect_close(got, on_one_device(trunk), 1e-4F);
  EXPECT_TRUE(same_bits(got.states[0], start(trunk)[0]));
  EXPECT_FALSE(same_bits(got.states[1], start(trunk)[1]));
}

}  // namespace
}  // namespace convoy
