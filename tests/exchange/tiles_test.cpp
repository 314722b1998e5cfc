// Compares nodes whose plan cuts stages along samples with the trunk on one device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "nets/graph/net.hpp"
#include "tests/exchange/nodes.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/plain_trunk.hpp"
#include "tests/support/states.hpp"
#include "tests/support/tiles.hpp"
#include "train/local_trunk.hpp"

namespace convoy {
namespace {

constexpr int kSamplesOfBatch = 12;
constexpr int kTiledSteps = 4;
/// Adam may divide by a number next to 0, so a small epsilon would amplify rounding.
constexpr UpdateStep kAdam{.optimizer = Optimizer::adam,
                           .learning_rate = 0.01F,
                           .momentum = 0.9F,
                           .epsilon = 0.1F,
                           .correction1 = 0.1F,
                           .correction2 = 0.001F};

/// Three stages with odd sizes, dropout, and every kind of pooling.
Stages plain_chain() {
  return {{.name = "conv1",
           .channels = 2,
           .height = 11,
           .width = 9,
           .conv = {.filters = 7, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
           .after = {Activation::relu, Pooling{}, Dropout{0.25F, 1}}},
          {.name = "conv2",
           .channels = 7,
           .height = 5,
           .width = 4,
           .conv = {.filters = 9, .kernel_h = 3, .kernel_w = 2, .pad = {1, 0, 1, 1}, .bias = false},
           .after = {Activation::tanh, Dropout{0.25F, 0}}},
          {.name = "conv3",
           .channels = 9,
           .height = 5,
           .width = 4,
           .conv = {.filters = 5, .kernel_h = 2, .kernel_w = 2},
           .after = {Pooling{.kind = PoolKind::average}}}};
}

/// The chain with two batch norms in its second stage, and one in the others.
Stages normalised_chain() {
  Stages trunk = plain_chain();
  trunk[0].after.insert(trunk[0].after.begin(), BatchNorm{.name = "norm1"});
  trunk[1].after = {BatchNorm{.name = "norm2", .momentum = 0.5F}, Activation::tanh, BatchNorm{.name = "norm3"},
                    Dropout{0.25F, 0}};
  trunk[2].after.emplace_back(BatchNorm{.name = "norm4"});
  return trunk;
}

/// The chain with activations whose derivative needs their input, and those that make numbers of the zeros with which a
/// device fills up its blocks of channels, in front of a convolution.
Stages activated_chain() {
  using Kind = Activation::Kind;
  Stages trunk = plain_chain();
  trunk[0].after = {Activation{Kind::softplus}, Pooling{}, Activation{Kind::hard_sigmoid, 0.25F, 0.5F},
                    Activation{Kind::silu}};
  trunk[1].after = {BatchNorm{.name = "norm1"}, Activation{Kind::gelu}, Activation{Kind::clip, 0.25F, 1.5F}};
  trunk[2].after = {Activation{Kind::hard_swish}, Dropout{0.25F, 0}, Activation{Kind::elu, 0.5F},
                    Activation{Kind::selu}};
  return trunk;
}

Stages trunk_with_branches() { return cut(parse_net(kGraphNet, "graph.yaml")).trunk; }

Stages trunk_with_gates() { return cut(parse_net(kGatesNet, "gates.yaml")).trunk; }

Stages trunk_with_norms() { return cut(parse_net(kNormsNet, "norms.yaml")).trunk; }

Stages with_moments(Stages trunk, Optimizer optimizer) {
  for (Stage& stage : trunk) stage.moments = moments_of(optimizer);
  return trunk;
}

/// Scales the gradients so that their norm is at most 1.
UpdateStep clipped(UpdateStep step, double squares) {
  step.gradient_scale = squares > 1.0 ? static_cast<float>(1.0 / std::sqrt(squares)) : 1.0F;
  return step;
}

Images tiled_images(const Stages& trunk, std::uint64_t stream) {
  return noise_images(input_shape(trunk[0], kSamplesOfBatch), 3, stream);
}

template <class LocalTrunk = PlainTrunk>
Result train_local(const std::string& name, const Stages& trunk, const UpdateStep& step) {
  const auto device = make_device(name, {.threads = 1});
  LocalTrunk local(trunk, input_shape(trunk[0], kSamplesOfBatch), *device);
  local.load(start(trunk));
  Result result;
  for (int i = 0; i < kTiledSteps; ++i) {
    local.forward(tiled_images(trunk, 100 + static_cast<std::uint64_t>(i)), pass_of(i));
    local.backward(pointers(gradients_of(local, trunk, i)));
    result.squares.push_back(local.gradient_squares());
    local.update(clipped(step, result.squares.back()));
  }
  result.tested = local.forward(tiled_images(trunk, 99), {});
  result.states = local.snapshot();
  return result;
}

Result train_on_nodes(const Plan& plan, const Stages& trunk, const std::string& device, std::uint64_t seed,
                      const UpdateStep& step) {
  Nodes nodes(plan, trunk, device, seed, start(trunk));
  Result result;
  for (int i = 0; i < kTiledSteps; ++i) {
    nodes.train(tiled_images(trunk, 100 + static_cast<std::uint64_t>(i)), i);
    result.squares.push_back(nodes.gradient_squares());
    nodes.update(clipped(step, result.squares.back()));
  }
  result.tested = nodes.forward(tiled_images(trunk, 99), {});
  result.states = nodes.states();
  return result;
}

struct TilesCase {
  std::string name;
  Exchange exchange = Exchange::ring;
  int micro_batches = 1;
  bool own = false;          ///< whether the last of four members is the master
  std::vector<int> samples;  ///< of rows, for a micro-batch
  Grid grid;
  std::size_t from = 0;      ///< stages before this one are cut along filters alone
  std::size_t until = 1000;  ///< so are stages from this one on
  bool relayed = false;
  int early_sums = 0;
};

void PrintTo(const TilesCase& c, std::ostream* out) { *out << c.name; }

Plan plan_of(const TilesCase& c, const Stages& trunk, bool weightless = false) {
  Plan plan = proportional_plan(trunk, kSamplesOfBatch, member_names(4, c.own), {2, 1, 3, 2});
  set_micro_batches(plan, c.micro_batches);
  plan.exchange = c.exchange;
  plan.relayed = c.relayed;
  plan.early_sums = c.early_sums;
  for (std::size_t s = c.from; s < trunk.size() && s < c.until; ++s) {
    if (everywhere(plan.stages[s]) && !weightless) continue;
    plan.stages[s] = in_rows(trunk[s], c.samples, c.grid);
  }
  validate(plan, trunk);
  return plan;
}

class TilesTogether : public testing::TestWithParam<TilesCase> {};

TEST_P(TilesTogether, TrainAsOneDeviceDoes) {
  for (const UpdateStep& step : {kSgd, kAdam}) {
    const Stages trunk = with_moments(plain_chain(), step.optimizer);
    const Plan plan = plan_of(GetParam(), trunk);
    const Result once = train_on_nodes(plan, trunk, "eigen", 1, step);
    expect_close(once, train_local("eigen", trunk, step), 2e-5F);
    EXPECT_TRUE(same_bits(once, train_on_nodes(plan, trunk, "eigen", 2, step))) << "another order of arrivals";
  }
}

/// The statistics are those of the whole batch, whoever has its samples. So are the running averages, which are part of
/// the states.
TEST_P(TilesTogether, NormaliseOverTheWholeBatch) {
  for (const UpdateStep& step : {kSgd, kAdam}) {
    const Stages trunk = with_moments(normalised_chain(), step.optimizer);
    const Plan plan = plan_of(GetParam(), trunk);
    const Result once = train_on_nodes(plan, trunk, "eigen", 1, step);
    expect_close(once, train_local("eigen", trunk, step), 1e-4F);
    EXPECT_TRUE(same_bits(once, train_on_nodes(plan, trunk, "eigen", 2, step))) << "another order of arrivals";
  }
}

TEST_P(TilesTogether, ActivateAsOneDeviceDoes) {
  const Stages trunk = activated_chain();
  const Plan plan = plan_of(GetParam(), trunk);
  const Result once = train_on_nodes(plan, trunk, "eigen", 1, kSgd);
  expect_close(once, train_local("eigen", trunk, kSgd), 1e-4F);
  EXPECT_TRUE(same_bits(once, train_on_nodes(plan, trunk, "eigen", 2, kSgd))) << "another order of arrivals";
}

/// Compares training by a case's plans, in two orders of arrivals, with one device.
void expect_as_one_device(const TilesCase& c, const Stages& trunk) {
  const Result local = train_local("eigen", trunk, kSgd);
  for (const bool weightless : {false, true}) {
    const Plan plan = plan_of(c, trunk, weightless);
    const Result once = train_on_nodes(plan, trunk, "eigen", 1, kSgd);
    expect_close(once, local, 1e-4F);
    EXPECT_TRUE(same_bits(once, train_on_nodes(plan, trunk, "eigen", 2, kSgd))) << "another order of arrivals";
  }
}

TEST_P(TilesTogether, TrainBranchesAsOneDeviceDoes) { expect_as_one_device(GetParam(), trunk_with_branches()); }

TEST_P(TilesTogether, TrainGatesAsOneDeviceDoes) { expect_as_one_device(GetParam(), trunk_with_gates()); }

TEST_P(TilesTogether, TrainNormsAsOneDeviceDoes) { expect_as_one_device(GetParam(), trunk_with_norms()); }

/// Shares of 3:2:1, all along filters and all along samples. Some of the shares divide the groups of norms.
void expect_alike_in_shares(const Stages& trunk) {
  for (const std::string device : {"eigen", "cpu"}) {
    const Result local = train_local(device, trunk, kSgd);
    for (const Exchange exchange : {kRing, kStar}) {
      Plan plan = proportional_plan(trunk, kSamplesOfBatch, member_names(3, false), {3, 2, 1});
      plan.exchange = exchange;
      for (std::size_t s = 0; s < trunk.size(); ++s) {
        plan.stages[s] = stage_plan(apportion(trunk[s].conv.filters, {3, 2, 1}), kSamplesOfBatch);
      }
      validate(plan, trunk);
      expect_close(train_on_nodes(plan, trunk, device, 1, kSgd), local, 1e-4F);
      for (std::size_t s = 0; s < trunk.size(); ++s) plan.stages[s] = in_rows(trunk[s], {6, 4, 2}, {{0}, {1}, {2}});
      validate(plan, trunk);
      expect_close(train_on_nodes(plan, trunk, device, 1, kSgd), local, 1e-4F);
    }
  }
}

TEST(GatesTogether, TrainInSharesAsOneDeviceDoes) { expect_alike_in_shares(trunk_with_gates()); }

TEST(NormsTogether, TrainInSharesAsOneDeviceDoes) { expect_alike_in_shares(trunk_with_norms()); }

const Grid kSamples{{0}, {1}, {2}, {3}};
const Grid kSquare{{0, 1}, {2, 3}};

INSTANTIATE_TEST_SUITE_P(
    Plans, TilesTogether,
    testing::Values(TilesCase{"RingOfSamples", kRing, 1, false, {3, 3, 3, 3}, kSamples},
                    TilesCase{"UnequalRows", kRing, 1, false, {1, 6, 2, 3}, kSamples},
                    TilesCase{"StarOfSamples", kStar, 1, false, {2, 5, 1, 4}, kSamples},
                    TilesCase{"StarWithMaster", kStar, 2, true, {1, 2, 1, 2}, kSamples},
                    TilesCase{"RingInMicroBatches", kRing, 2, true, {2, 1, 2, 1}, kSamples},
                    TilesCase{"OneIdle", kRing, 3, false, {1, 3}, {{1}, {3}}},
                    TilesCase{"RingSquare", kRing, 1, false, {5, 7}, kSquare},
                    TilesCase{"StarSquare", kStar, 2, true, {4, 2}, kSquare},
                    TilesCase{"ThreeAndOne", kRing, 3, false, {3, 1}, {{0, 2, 3}, {1}}},
                    TilesCase{"SamplesThenFilters", kRing, 2, false, {1, 2, 1, 2}, kSamples, 0, 2},
                    TilesCase{"SamplesThenFiltersInAStar", kStar, 1, true, {2, 5, 1, 4}, kSamples, 0, 2},
                    TilesCase{"FiltersThenSamples", kRing, 1, true, {2, 5, 1, 4}, kSamples, 1, 3},
                    TilesCase{"Relayed", kRing, 2, false, {1, 2, 1, 2}, kSamples, 0, 1, true},
                    TilesCase{"EarlySums", kRing, 1, false, {3, 3, 3, 3}, kSamples, 0, 1000, false, 2},
                    TilesCase{"EarlySumsInAStar", kStar, 2, true, {4, 2}, kSquare, 0, 1000, false, 2}),
    [](const auto& info) { return info.param.name; });

TEST(TilesTogether, WorkOnEveryDevice) {
  for (const Stages& trunk : {normalised_chain(), activated_chain()}) {
    const Plan plan = plan_of({"", kRing, 2, false, {1, 2, 1, 2}, kSamples, 0, 2}, trunk);
    for (const std::string device : {"reference", "cpu"}) {
      expect_close(train_on_nodes(plan, trunk, device, 1, kSgd), train_local(device, trunk, kSgd), 1e-4F);
    }
  }
}

/// Devices agree on maps that pass from stage to stage in their own layouts.
TEST(LocalTrunks, AreAlikeOnEveryDevice) {
  for (const Stages& trunk : {activated_chain(), trunk_with_gates(), trunk_with_norms()}) {
    const Result expected = train_local<LocalTrunk>("reference", trunk, kSgd);
    for (const DeviceRow& row : list_devices()) {
      if (!row.unusable.empty() || row.name.starts_with("clblast")) continue;
      SCOPED_TRACE(row.name);
      expect_close(train_local<LocalTrunk>(row.name, trunk, kSgd), expected, 1e-4F);
    }
  }
}

/// The only node of a plan does what a device does to one stage after another.
TEST(LocalTrunks, HaveTheBitsOfPlainTrunks) {
  for (const DeviceRow& row : list_devices()) {
    if (!row.unusable.empty() || row.name.starts_with("clblast")) continue;
    const std::vector<std::pair<Stages, UpdateStep>> cases{{with_moments(normalised_chain(), Optimizer::adam), kAdam},
                                                           {trunk_with_branches(), kSgd},
                                                           {trunk_with_norms(), kSgd},
                                                           {trunk_with_gates(), kSgd}};
    for (const auto& [trunk, step] : cases) {
      // A node copies the gradient by a gate as floats, which this device's own values are not.
      if (row.name == "reference64" && &trunk == &cases.back().first) continue;
      SCOPED_TRACE(row.name + ", " + trunk[0].name);
      EXPECT_TRUE(same_bits(train_local<LocalTrunk>(row.name, trunk, step), train_local(row.name, trunk, step)));
    }
  }
}

// ---- updates by sums -----------------------------------------------------------------------------------------------

/// Values of a state without moments: those of filters that a member does not update by sums are never read.
ShardState without_moments(ShardState state) {
  for (Parameter& each : state.parameters) each.moments.clear();
  return state;
}

/// Trains on nodes with these devices for a few steps, or as many as CONVOY_UPDATES says, and expects all holders of a
/// filter to have the same bits of it afterwards, and the members that update by sums the same moments.
void expect_holders_agree(const Plan& plan, const Stages& trunk, const UpdateStep& step,
                          const std::function<std::unique_ptr<Device>(int)>& device_of) {
  Nodes nodes(plan, trunk, device_of, 1, start(trunk));
  const char* asked = std::getenv("CONVOY_UPDATES");
  const int steps = asked != nullptr ? std::stoi(asked) : kTiledSteps;
  for (int i = 0; i < steps; ++i) {
    nodes.train(tiled_images(trunk, 100 + static_cast<std::uint64_t>(i)), i);
    nodes.update(clipped(step, nodes.gradient_squares()));
  }
  const Images images = tiled_images(trunk, 99);
  nodes.forward(images, {});  // takes weights that wait for the next pass
  expect_same_images(nodes, images, plan);
  const std::vector<ShardState> owned = nodes.states();
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    for (const auto& [tile, state] : nodes.tile_states(s)) {
      const ShardState expected = slice(owned[s], tile.filters);
      EXPECT_TRUE(same_bits(without_moments(state), without_moments(expected))) << trunk[s].name << tile.member;
      if (!plan.unequal.empty()) continue;
      EXPECT_TRUE(same_bits(state, expected)) << "moments of " << trunk[s].name << " at member " << tile.member;
    }
  }
}

std::unique_ptr<Device> one_of_all(int node) {
  const std::vector<std::string> names{"cpu", "eigen", "opencl:0", "reference"};
  const std::string& name = names[static_cast<std::size_t>(node) % names.size()];
  const std::vector<DeviceRow> rows = list_devices();
  const bool usable =
      std::ranges::any_of(rows, [&](const auto& row) { return row.name == name && row.unusable.empty(); });
  return make_device(usable ? name : "eigen", {.threads = 1});
}

/// Running averages are compared, too. No weights travel, so only equal updates can keep the holders equal.
TEST(UpdatesBySums, KeepHoldersOnDifferentDevicesEqual) {
  struct Case {
    Exchange exchange;
    NumberType wire;
    std::vector<int> rows;
    Grid grid;
  };
  const std::vector<Case> cases{{kRing, NumberType::fp32, {3, 4, 2, 3}, kSamples},
                                {kRing, NumberType::int8, {5, 7}, kSquare},
                                {kStar, NumberType::bf16, {3, 4, 2, 3}, kSamples}};
  for (const UpdateStep& step : {kSgd, kAdam}) {
    const Stages trunk = with_moments(normalised_chain(), step.optimizer);
    for (const Case& each : cases) {
      Plan plan = plan_of({"", each.exchange, 1, true, each.rows, each.grid}, trunk);
      plan.wire = each.wire;
      for (const Task& task : make_task_graph(plan, trunk).tasks) {
        EXPECT_FALSE(task.kind == TaskKind::send && task.cargo == Cargo::weights);
      }
      expect_holders_agree(plan, trunk, step, one_of_all);
    }
  }
}

/// Members 1 and 2 update in double precision, which is not the definition.
TEST(UpdatesBySums, LeaveOutMembersThatUpdateOtherwise) {
  const auto device_of = [](int node) {
    return node == 1 || node == 2 ? make_device("reference64", {}) : make_device("eigen", {.threads = 1});
  };
  for (const UpdateStep& step : {kSgd, kAdam}) {
    const Stages trunk = with_moments(normalised_chain(), step.optimizer);
    for (const Exchange exchange : {kRing, kStar}) {
      Plan plan = plan_of({"", exchange, 2, true, {2, 1, 2, 1}, kSamples, 0, 2}, trunk);
      plan.unequal = {1, 2};
      plan.wire = NumberType::bf16;
      expect_holders_agree(plan, trunk, step, device_of);
    }
  }
}

TEST(TilesTogether, InFewerBitsAreNearAndRepeatable) {
  const Stages trunk = normalised_chain();
  const Result floats = train_local("eigen", trunk, kSgd);
  for (const NumberType type : {NumberType::bf16, NumberType::fp16, NumberType::int8}) {
    Plan plan = plan_of({"", kRing, 2, true, {4, 2}, kSquare, 0, 2}, trunk);
    plan.wire = type;
    const Result once = train_on_nodes(plan, trunk, "eigen", 1, kSgd);
    EXPECT_TRUE(same_bits(once, train_on_nodes(plan, trunk, "eigen", 5, kSgd)));
    for (std::size_t s = 0; s < floats.states.size(); ++s) expect_near(once.states[s], floats.states[s], 0.05F);
    EXPECT_FALSE(same_bits(once, floats));
  }
}

}  // namespace
}  // namespace convoy
