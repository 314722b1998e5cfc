// Compares nodes that execute a plan's task graph together with the trunk on one device. The weights must be the same
// for every plan, every order in which parcels arrive, and every order in which nodes take turns.

#include "exchange/node.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nets/graph/net.hpp"
#include "tests/exchange/nodes.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/plain_trunk.hpp"
#include "tests/support/states.hpp"

namespace convoy {
namespace {

constexpr int kBatch = 6;
constexpr int kSteps = 5;
/// Tolerance for values up to 10 of the trunk with branches, whose small batch norms amplify rounding.
constexpr float kBranches = 5e-4F;

/// Three stages with odd sizes and every kind of channel layer. The thesis' scheme has no batch norm.
Stages chain(Exchange exchange = Exchange::ring) {
  std::vector<Stage> stages{{.name = "conv1",
                             .channels = 2,
                             .height = 11,
                             .width = 9,
                             .conv = {.filters = 7, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                             .after = {Activation::relu, Pooling{}}},
                            {.name = "conv2",
                             .channels = 7,
                             .height = 5,
                             .width = 4,
                             .conv = {.filters = 9, .kernel_h = 3, .kernel_w = 2, .pad = {1, 0, 1, 1}},
                             .after = {Activation::tanh, Dropout{0.25F, 0}}},
                            {.name = "conv3",
                             .channels = 9,
                             .height = 5,
                             .width = 4,
                             .conv = {.filters = 5, .kernel_h = 2, .kernel_w = 2},
                             .after = {Pooling{.kind = PoolKind::average}}}};
  if (exchange == Exchange::thesis) return stages;
  stages[0].conv.bias = false;
  stages[0].after.insert(stages[0].after.begin(), BatchNorm{.name = "norm1", .momentum = 0.5F});
  stages[1].after.insert(stages[1].after.begin(), BatchNorm{.name = "norm2"});
  return stages;
}

Stages branches() { return cut(parse_net(kGraphNet, "graph.yaml")).trunk; }

Shape images_shape(const Stages& trunk) { return input_shape(trunk[0], kBatch); }

Images images_of(const Stages& trunk, std::uint64_t stream) { return noise_images(images_shape(trunk), 3, stream); }

Result train_local(const std::string& name, const Stages& trunk) {
  const auto device = make_device(name, {.threads = 1});
  PlainTrunk local(trunk, images_shape(trunk), *device);
  local.load(start(trunk));
  for (int step = 0; step < kSteps; ++step) {
    local.forward(images_of(trunk, 100 + static_cast<std::uint64_t>(step)), pass_of(step));
    local.backward(pointers(gradients_of(local, trunk, step)));
    local.update(kSgd);
  }
  return {.tested = local.forward(images_of(trunk, 99), {}), .states = local.snapshot(), .squares = {}};
}

Result train_on_nodes(const Plan& plan, const Stages& trunk, const std::string& device, std::uint64_t seed) {
  Nodes nodes(plan, trunk, device, seed, start(trunk));
  for (int step = 0; step < kSteps; ++step) {
    nodes.train(images_of(trunk, 100 + static_cast<std::uint64_t>(step)), step);
    nodes.update(kSgd);
  }
  Result result;
  result.tested = nodes.forward(images_of(trunk, 99), {});
  result.states = nodes.states();
  return result;
}

struct NodesCase {
  std::string name;
  std::vector<double> shares;
  bool own = false;  ///< whether the last share is the master's
  Exchange exchange = Exchange::star;
  int micro_batches = 1;
  std::vector<bool> replicated{false, false};  ///< for each of the first stages, whether it is replicated
  bool relayed = false;
};

void PrintTo(const NodesCase& c, std::ostream* out) { *out << c.name; }

Plan plan_of(const NodesCase& c, const Stages& trunk) {
  std::vector<std::string> members;
  for (std::size_t i = 0; i < c.shares.size(); ++i) members.push_back(fmt::format("slave{}", i));
  if (c.own) members.back() = "master";
  Plan plan = proportional_plan(trunk, kBatch, members, c.shares);
  plan.exchange = c.exchange;
  set_micro_batches(plan, c.micro_batches);
  plan.relayed = c.relayed;
  for (std::size_t s = 0; s < c.replicated.size(); ++s) {
    if (!everywhere(plan.stages[s])) plan.stages[s].replicated = c.replicated[s];
  }
  validate(plan, trunk);
  return plan;
}

class NodesTogether : public testing::TestWithParam<NodesCase> {};

TEST_P(NodesTogether, TrainAsOneDeviceDoes) {
  const Stages trunk = chain(GetParam().exchange);
  const Plan plan = plan_of(GetParam(), trunk);
  const Result once = train_on_nodes(plan, trunk, "eigen", 1);
  expect_close(once, train_local("eigen", trunk), 2e-5F);
  EXPECT_TRUE(same_bits(once, train_on_nodes(plan, trunk, "eigen", 2))) << "another order of turns and arrivals";
}

TEST_P(NodesTogether, HaveTheImagesToTheBitWhateverTheNumberType) {
  const Stages trunk = chain(GetParam().exchange);
  const Images images = images_of(trunk, 99);
  for (const NumberType wire : {NumberType::fp32, NumberType::bf16, NumberType::int8}) {
    SCOPED_TRACE(to_string(wire));
    Plan plan = plan_of(GetParam(), trunk);
    plan.wire = wire;
    Nodes nodes(plan, trunk, "eigen", 1, start(trunk));
    nodes.forward(images, {});
    expect_same_images(nodes, images, plan);
  }
}

/// The member computes what one device does, so that images that were not exact would show in the weights.
TEST(OneMember, HasTheBitsOfOneDevice) {
  const Stages trunk = chain();
  const Result local = train_local("eigen", trunk);
  EXPECT_TRUE(same_bits(train_on_nodes(plan_of({"", {1}}, trunk), trunk, "eigen", 1), local));
}

TEST_P(NodesTogether, TrainBranchesAsOneDeviceDoes) {
  if (GetParam().exchange == Exchange::thesis) GTEST_SKIP() << "the thesis' scheme has no branches";
  const Stages trunk = branches();
  Plan plan = plan_of(GetParam(), trunk);
  const Result local = train_local("eigen", trunk);
  const Result once = train_on_nodes(plan, trunk, "eigen", 1);
  expect_close(once, local, kBranches);
  EXPECT_TRUE(same_bits(once, train_on_nodes(plan, trunk, "eigen", 2))) << "another order of turns and arrivals";
  // Stages without weights are split too, whether or not this is faster, and shares differ from stage to stage.
  std::vector<double> shares = GetParam().shares;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    std::rotate(shares.begin(), shares.begin() + 1, shares.end());
    const std::vector<Stage> one{stage_without_weights("any", StageKind::channels, trunk[s].conv.filters, 1, 1)};
    plan.stages[s].rows = proportional_plan(one, micro_batch_size(plan), plan.members, shares).stages[0].rows;
    if (!has_parameters(trunk[s])) plan.stages[s].replicated = false;
  }
  validate(plan, trunk);
  expect_close(train_on_nodes(plan, trunk, "eigen", 3), local, kBranches);
}

constexpr auto kThesis = Exchange::thesis;

INSTANTIATE_TEST_SUITE_P(
    Plans, NodesTogether,
    testing::Values(NodesCase{"OneSlave", {1}}, NodesCase{"MasterAlone", {1}, true}, NodesCase{"Star", {3, 1, 2}},
                    NodesCase{"StarWithMaster", {1, 2, 2}, true, kStar, 3},
                    NodesCase{"StarInMicroBatches", {3, 1}, false, kStar, 6},
                    NodesCase{"Ring", {3, 1, 2}, false, kRing}, NodesCase{"RingOfOne", {1}, false, kRing, 2},
                    NodesCase{"RingInMicroBatches", {1, 2, 1, 3}, false, kRing, 3},
                    NodesCase{"RingWithMaster", {1, 2, 2}, true, kRing, 2},
                    NodesCase{"OneWithoutFilters", {2, 0, 1}, false, kRing, 2},
                    NodesCase{"FirstReplicated", {1, 3, 1}, false, kRing, 2, {true, false}},
                    NodesCase{"TwoReplicated", {2, 1, 1}, true, kRing, 3, {true, true}},
                    NodesCase{"ImagesRelayed", {1, 2, 0, 3}, false, kRing, 3, {true, false}, true},
                    NodesCase{"ImagesRelayedWithMaster", {1, 2, 2}, true, kRing, 2, {false, false}, true},
                    NodesCase{"Thesis", {3, 1, 2}, false, kThesis},
                    NodesCase{"ThesisWithMaster", {1, 2, 2}, true, kThesis},
                    NodesCase{"MoreSlavesThanFilters", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, false, kRing, 2}),
    [](const auto& info) { return info.param.name; });

TEST(Exchanges, GiveTheSameBits) {
  for (const Stages& trunk : {chain(), branches()}) {
    const Result star = train_on_nodes(plan_of({"", {3, 1, 2}, false, kStar, 2}, trunk), trunk, "eigen", 1);
    const Result ring = train_on_nodes(plan_of({"", {3, 1, 2}, false, kRing, 2}, trunk), trunk, "eigen", 1);
    EXPECT_TRUE(same_bits(star, ring));
  }
}

TEST(Exchanges, InFewerBitsAreNearAndRepeatable) {
  for (const NumberType type : {NumberType::bf16, NumberType::fp16, NumberType::int8}) {
    Plan plan = plan_of({"", {3, 1, 2}, true, kRing, 2, {true, false}}, chain());
    plan.wire = type;
    const Result once = train_on_nodes(plan, chain(), "eigen", 1);
    EXPECT_TRUE(same_bits(once, train_on_nodes(plan, chain(), "eigen", 5)));
    const Result floats = train_local("eigen", chain());
    expect_close(once, floats, type == NumberType::fp16 ? 0.02F : 0.15F);
    EXPECT_FALSE(same_bits(once, floats));
  }
}

TEST(Exchanges, WorkOnEveryDevice) {
  for (const Stages& trunk : {chain(), branches()}) {
    const Plan plan = plan_of({"", {3, 1, 2}, false, kRing, 3, {true, false}}, trunk);
    for (const std::string device : {"reference", "cpu"}) {
      expect_close(train_on_nodes(plan, trunk, device, 1), train_local(device, trunk), kBranches);
    }
  }
}

TEST(NodeParcels, ThatDoNotBelongAreRefused) {
  const Plan plan = plan_of({"", {1, 1}, false, kRing}, chain());
  const auto device = make_device("eigen", {.threads = 1});
  Node node(plan, chain(), 0, device.get(), {.send = [](Parcel&&) {}, .grant = [](int) {}});
  node.begin({.pass = Pass{.training = true}, .scales = images_of(chain(), 1).scales}, nullptr);
  const TaskGraph graph = make_task_graph(plan, chain());
  const auto first_to_node = [&](bool images) {
    return std::ranges::find_if(graph.tasks,
                                [&](const Task& task) { return task.to == 0 && carries_images(task) == images; });
  };
  const auto to_node = first_to_node(false);
  const auto index = static_cast<int>(to_node - graph.tasks.begin());
  const std::vector<std::byte> bytes(8);
  const int from = to_node->node;
  const auto receive = [&](int sender, int task, std::size_t first, std::size_t size) {
    node.receive(sender, task, first, {nullptr, {bytes.data(), size}});
  };
  const auto expect = [&](int sender, int task, std::size_t first, std::size_t size, const std::string& text) {
    EXPECT_THAT([&] { receive(sender, task, first, size); }, testing::ThrowsMessage<Error>(testing::HasSubstr(text)));
  };
  expect(from, -1, 0, 8, "no such task to send here");
  expect(from, 1 << 20, 0, 8, "no such task to send here");
  expect(from, index + 1, 0, 8, "no such task to send here");
  expect(from + 1, index, 0, 8, "no such task to send here");
  expect(from, index, 1, 8, "from value 1 on");
  expect(from, index, 0, 7, "where values 0 to");
  expect(from, index, 0, 0, "where values 0 to");
  receive(from, index, 0, 8);
  expect(from, index, 0, 8, "where values 2 to");
  const auto pixels = first_to_node(true);
  const auto index_of_pixels = static_cast<int>(pixels - graph.tasks.begin());
  expect(pixels->node, index_of_pixels, 1, 8, "from value 1 on");
  receive(pixels->node, index_of_pixels, 0, 7);
  expect(pixels->node, index_of_pixels, 0, 8, "where values 7 to");
}

}  // namespace
}  // namespace convoy
