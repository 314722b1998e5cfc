// Compares the trunk on slaves with the trunk on one device. The results must be the same for every number of slaves
// and all shares.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "master/cluster/cluster_trunk.hpp"

#include "master/cluster/profile.hpp"
#include "nets/graph/net.hpp"
#include "plan/choose.hpp"
#include "tests/master/small_cluster.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

struct ClusterCase {
  std::string name;
  Names devices;
  int slaves;
  std::vector<double> shares;
  bool own = false;
};

void PrintTo(const ClusterCase& c, std::ostream* out) { *out << c.name; }

class Clusters : public testing::TestWithParam<ClusterCase> {};

TEST_P(Clusters, TrainAsOneMachineDoes) {
  const ClusterCase& c = GetParam();
  for (const DeviceRow& row : list_devices()) {
    const bool wanted =
        std::ranges::any_of(c.devices, [&](const std::string& name) { return name.starts_with(row.name); });
    if (wanted && !row.unusable.empty()) GTEST_SKIP() << row.name << ": " << row.unusable;
  }
  const Result star = train_on_slaves(c.devices, c.slaves, c.shares, c.own);
  expect_close(star, train_local(c.devices.front()));
  const auto in_a_ring = [](Plan& plan) { plan.exchange = Exchange::ring; };
  expect_equal(star, train_on_slaves(c.devices, c.slaves, c.shares, c.own, in_a_ring));
}

/// Two runs are equal to the bit and close to a local run, whether the first stage is replicated or not.
TEST(ClustersInMicroBatches, AreRepeatableToTheBit) {
  for (const bool replicated : {false, true}) {
    const auto change = [&](Plan& plan) {
      plan.exchange = Exchange::ring;
      set_micro_batches(plan, 2);
      plan.stages[0].replicated = replicated;
    };
    const Result once = train_on_slaves({"eigen"}, 3, {1, 5, 2}, false, change);
    expect_close(once, train_local("eigen"));
    expect_equal(once, train_on_slaves({"eigen"}, 3, {1, 5, 2}, false, change));
  }
}

/// Trains on three slaves, and on the master where the plan names it.
Result train_on_three(const Cut& cut, const Plan& plan, const TrainingOptions& options, int steps = kSteps,
                      const std::string& device_name = "eigen") {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  SlaveThreads threads(lobby.endpoint(), 3, {device_name});
  const std::atomic<bool> stop{false};
  crew.gather(3, stop, [] {});
  const auto device = make_device(device_name, {.threads = 1});
  const bool own = has_master(plan);
  ClusterTrunk trunk(cut.trunk, plan, crew, own ? device.get() : nullptr, 20s);
  const Result result = train_some(
      trunk, cut, [](int) {}, options, steps);
  crew.dismiss("the test finished");
  return result;
}

/// The statistics of batch norms are those of the whole batch, and the norm of the gradients is that of all shards.
TEST(ClustersThatNormaliseAndClip, TrainAsOneMachineDoes) {
  Cut cut = small_net();
  cut.trunk[0].conv.bias = false;
  cut.trunk[0].after.insert(cut.trunk[0].after.begin(), BatchNorm{.name = "norm1"});
  cut.trunk[1].after.insert(cut.trunk[1].after.begin(), BatchNorm{.name = "norm2", .momentum = 0.5F});
  cut.moments = moments_of(Optimizer::adam);
  for (Stage& stage : cut.trunk) stage.moments = cut.moments;
  // Adam may divide by a number next to 0, so a small epsilon would amplify rounding.
  const TrainingOptions options{.optimizer = Optimizer::adam, .learning_rate = 0.01, .epsilon = 0.1, .clip = 0.25};
  const auto device = make_device("eigen", {.threads = 1});
  LocalTrunk local(cut.trunk, input_shape(cut.trunk[0], kBatch), *device);
  const Result alone = train_some(
      local, cut, [](int) {}, options);
  for (const bool by_samples : {false, true}) {
    for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
      SCOPED_TRACE(to_string(exchange) + (by_samples ? ", samples" : ", filters"));
      // The second slave has no share.
      const std::vector<double> shares{3, 0, 1, 2};
      Plan plan = proportional_plan(cut.trunk, kBatch, {"a", "b", "c", "master"}, shares);
      plan.exchange = exchange;
      if (by_samples) {
        ASSERT_TRUE(cut_by_samples(plan, cut.trunk, cut.trunk.size(), shares));
        plan.early_sums = 1;
      } else {
        set_micro_batches(plan, 2);
        plan.stages[0].replicated = exchange == Exchange::ring;
      }
      const Result together = train_on_three(cut, plan, options);
      EXPECT_NEAR(together.loss, alone.loss, 1e-3);
      for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(together.trunk[s], alone.trunk[s], 1e-4);
      if (by_samples) expect_equal(together, train_on_three(cut, plan, options));
    }
  }
}

/// ResNet-20 has a batch norm in each stage with weights. Each member computes all stages for its samples alone.
TEST(ClustersThatShareSamples, TrainResNet20AsOneMachineDoes) {
  const Cut cut = convoy::cut(read_net(source_folder() + "/nets/resnet20.yaml", {"dense1.units=4"}));
  TrainingOptions options = plain_sgd();
  options.learning_rate = 0.01;
  const auto device = make_device("cpu", {.threads = 1});
  Plan plan = proportional_plan(cut.trunk, kBatch, {"a", "b", "c"}, {2, 1, 1});
  plan.exchange = Exchange::ring;
  ASSERT_TRUE(cut_by_samples(plan, cut.trunk, cut.trunk.size(), {2, 1, 1}));
  plan.early_sums = 6;
  // After the first step, other roundings turn single ReLUs on or off, which moves the gradients of all stages before
  // them.
  for (const auto& [steps, tolerance] : {std::pair{1, 1e-4}, std::pair{3, 0.05}}) {
    LocalTrunk local(cut.trunk, input_shape(cut.trunk[0], kBatch), *device);
    const Result alone = train_some(
        local, cut, [](int) {}, options, steps);
    const Result together = train_on_three(cut, plan, options, steps, "cpu");
    EXPECT_NEAR(together.loss, alone.loss, 1e-3);
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
      expect_near_in_norm(together.trunk[s], alone.trunk[s], tolerance);
    }
    expect_equal(together, train_on_three(cut, plan, options, steps, "cpu"));
  }
}

/// A trunk with branches is timed, planned, loaded, moved and tested like a chain of stages.
TEST(ClustersWithBranches, TrainAsOneMachineDoes) {
  const Net net = parse_net(kGraphNet, "graph.yaml", {"out.units=4", "side_out.units=4"});
  const Cut cut = convoy::cut(net);
  TrainingOptions options = plain_sgd();
  options.learning_rate = 0.02;
  options.clip = 0.1;
  const auto device = make_device("eigen", {.threads = 1});
  LocalTrunk local(cut.trunk, input_shape(cut.trunk[0], kBatch), *device);
  const Result alone = train_some(
      local, cut, [](int) {}, options);
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  SlaveThreads threads(lobby.endpoint(), 3, {"eigen"});
  const std::atomic<bool> stop{false};
  crew.gather(3, stop, [] {});
  KnownTimes known = known_times(*device, {});
  const Profiles measured = profile_members(crew, {0, 1, 2}, *device, known, true, 0, cut.trunk, kBatch);
  EXPECT_GT(measured.card.out, 0.0);
  EXPECT_GT(measured.card.in, 0.0);
  const Choice choice = choose_plan(cut.trunk, kBatch, measured.members, {.exchange = Exchange::ring}, {});
  ClusterTrunk trunk(cut.trunk, choice.plan, crew, device.get(), 20s);
  const auto change = [&](const std::vector<double>& shares, Exchange exchange) {
    Plan plan = proportional_plan(cut.trunk, kBatch, choice.plan.members, shares);
    plan.exchange = exchange;
    set_micro_batches(plan, 2);
    trunk.change_plan(plan);
  };
  const Result together = train_some(
      trunk, cut,
      [&](int step) {
        if (step % 3 == 0) trunk.begin_snapshot(true);
        if (step % 3 == 1) trunk.take_snapshot();
        if (step == 8) change({1, 5, 2, 1}, Exchange::ring);
        if (step == 14) change({3, 0, 1, 1}, Exchange::star);
      },
      options);
  EXPECT_NEAR(together.loss, alone.loss, 1e-2);
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(together.trunk[s], alone.trunk[s], 2e-3);
  crew.dismiss("the test finished");
}

/// A run whose maps are rounded on the wire is close to the run in fp32 but not equal to it, and is repeatable to the
/// bit.
class NarrowWires : public testing::TestWithParam<NumberType> {};

TEST_P(NarrowWires, TrainLikeFloatsButForRounding) {
  const Names devices{"eigen"};
  const auto narrow = [](Plan& plan) { plan.wire = GetParam(); };
  const Result once = train_on_slaves(devices, 3, {1, 5, 2, 1}, true, narrow);
  expect_equal(once, train_on_slaves(devices, 3, {1, 5, 2, 1}, true, narrow));
  const Result floats = train_local("eigen");
  // The learning rate is small, so the difference stays far below the worst-case bound.
  expect_close(once, floats, GetParam() == NumberType::fp16 ? 0x1.0p-20 : 0x1.0p-17);
  EXPECT_NE(once.loss, floats.loss);
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowWires, testing::Values(NumberType::bf16, NumberType::fp16, NumberType::int8),
                         [](const auto& info) { return to_string(info.param); });

INSTANTIATE_TEST_SUITE_P(
    Sizes, Clusters,
    testing::Values(ClusterCase{"One", {"eigen"}, 1, {1}}, ClusterCase{"Two", {"eigen"}, 2, {3, 1}},
                    ClusterCase{"Three", {"eigen"}, 3, {1, 5, 2}},
                    ClusterCase{"Seven", {"eigen"}, 7, {1, 2, 1, 3, 1, 1, 2}},
                    ClusterCase{"OneWithoutFilters", {"eigen"}, 3, {2, 0, 1}},
                    ClusterCase{"MasterComputesToo", {"eigen"}, 2, {1, 2, 2}, true},
                    ClusterCase{"MoreSlavesThanFilters", {"reference"}, 12, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
                    ClusterCase{"Reference", {"reference"}, 2, {1, 2}}, ClusterCase{"Cpu", {"cpu"}, 3, {4, 1, 2}},
                    ClusterCase{"Mixed", {"cpu", "opencl:0", "eigen"}, 3, {2, 3, 1}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
