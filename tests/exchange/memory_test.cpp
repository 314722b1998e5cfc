// Compares the memory that the nodes of a plan take with the memory that plans count on.

#include <gtest/gtest.h>

#include "nets/graph/net.hpp"
#include "plan/node_memory.hpp"
#include "plan/planner.hpp"
#include "tests/exchange/nodes.hpp"
#include "tests/support/allocated.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

struct Case {
  std::string name;
  std::string net;
  int batch;
  Exchange exchange;
  std::size_t by_samples;  ///< number of first stages that are cut along samples
};

class NodeMemory : public testing::TestWithParam<Case> {};

TEST_P(NodeMemory, IsWhatPlansCountOn) {
  const Case& of = GetParam();
  const Stages trunk = cut(read_net(source_folder() + "/nets/" + of.net + ".yaml")).trunk;
  Plan plan = proportional_plan(trunk, of.batch, {"a", "b", "c"}, {1.0, 1.0, 2.0});
  plan.exchange = of.exchange;
  if (of.by_samples > 0) {
    ASSERT_TRUE(cut_by_samples(plan, trunk, std::min(of.by_samples, trunk.size()), {1.0, 1.0, 2.0}));
  }
  const std::vector<ShardState> states = start(trunk);
  const Images images = noise_images(input_shape(trunk[0], of.batch), 3, 2);

  const double before = allocated();
  Nodes nodes(plan, trunk, "cpu", 1, states, std::size_t{1} << 18U);
  double most = allocated() - before;
  for (int step = 0; step < 2; ++step) {
    nodes.train(images, step);
    nodes.update(kSgd);
    most = std::max(most, allocated() - before);
  }
  nodes.states();
  most = std::max(most, allocated() - before);
  if (most <= 0.0) GTEST_SKIP() << "the allocator does not count bytes (under a sanitizer)";

  const DeviceInfo info = make_device("cpu", {.threads = 1})->info();
  const TaskGraph graph = make_task_graph(plan, trunk);
  double counted = static_cast<double>(images.pixels.size());  // the copy of Nodes
  for (int node = 0; node < graph.nodes; ++node) {
    counted += info.memory_factor * static_cast<double>(shards_bytes(plan, trunk, graph, node, info.filter_block));
    counted += static_cast<double>(host_bytes(plan, trunk, graph, node));
  }
  EXPECT_LE(most, counted);
  EXPECT_GE(most, 0.4 * counted) << "a plan that counts far too much would refuse nets that fit";
}

INSTANTIATE_TEST_SUITE_P(Plans, NodeMemory,
                         testing::Values(Case{"ResNetRing", "resnet20", 16, kRing, 0},
                                         Case{"ResNetStar", "resnet20", 16, kStar, 0},
                                         Case{"ResNetRingSamples", "resnet20", 16, kRing, 100},
                                         Case{"ResNetStarSamples", "resnet20", 16, kStar, 100},
                                         Case{"WideRing", "cifar10-50-500", 16, kRing, 0},
                                         Case{"WideRingMixed", "cifar10-50-500", 16, kRing, 1},
                                         Case{"WideRingSamples", "cifar10-50-500", 16, kRing, 2}),
                         [](const testing::TestParamInfo<Case>& of) { return of.param.name; });

}  // namespace
}  // namespace convoy
