// Compares the nets in nets/ on nodes of a plan with the trunk on one device.

#include <gtest/gtest.h>

#include "model/sliced_model.hpp"
#include "tests/exchange/nodes.hpp"
#include "tests/support/plain_trunk.hpp"
#include "tests/support/shipped_nets.hpp"

namespace convoy {
namespace {

class ShippedNets : public testing::TestWithParam<Shipped> {};

/// Plans for one member, for three that share filters, and for two that share samples.
std::vector<Plan> plans_of_shipped(const std::vector<Stage>& trunk, int batch) {
  std::vector<Plan> plans;
  for (const std::vector<double>& shares : {std::vector<double>{1}, {3, 1, 2}, {1, 1}}) {
    std::vector<std::string> members;
    for (std::size_t i = 0; i < shares.size(); ++i) members.push_back(fmt::format("slave{}", i));
    Plan plan = proportional_plan(trunk, batch, members, shares);
    plan.exchange = Exchange::ring;
    if (shares.size() == 3) set_micro_batches(plan, 2);
    if (shares.size() == 2) cut_by_samples(plan, trunk, trunk.size(), shares);
    validate(plan, trunk);
    plans.push_back(std::move(plan));
  }
  return plans;
}

void expect_equal_on_nodes(const Net& net, const Cut& parts, const ModelState& model, int batch) {
  constexpr std::size_t kParcel = std::size_t{1} << 16U;
  const std::vector<ShardState> from = off_zero(model.trunk);
  const Images images = noise_images({batch, net.input.channels, net.input.height, net.input.width}, 3, 2);
  // The gradient is the change of the weights in one step, at a rate so high that the weights' size does not round it.
  constexpr UpdateStep kWhole{.learning_rate = 4096.0F};
  const auto device = make_device("cpu", {.threads = 1});
  PlainTrunk local(parts.trunk, images.shape(), *device);
  local.load(from);
  local.forward(images, pass_of(0));
  const std::vector<Tensor> slopes = gradients_of(local, parts.trunk, 0);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < slopes.size(); ++i) outputs.push_back(local.output(i));
  local.backward(pointers(slopes));
  local.update(kWhole);
  const std::vector<ShardState> expected = local.snapshot();
  for (const Plan& plan : plans_of_shipped(parts.trunk, batch)) {
    SCOPED_TRACE(describe(plan));
    Nodes nodes(plan, parts.trunk, "cpu", 1, from, kParcel);
    nodes.forward(images, pass_of(0));
    for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_LT(distance(nodes.output(i), outputs[i]), 1e-4);
    nodes.backward(pointers(slopes));
    nodes.update(kWhole);
    const std::vector<ShardState> got = nodes.states();
    for (std::size_t s = 0; s < expected.size(); ++s) {
      const std::vector<ParameterSpec> specs = parameters_of(parts.trunk[s], parts.trunk[s].conv.filters);
      for (std::size_t p = 0; p < specs.size(); ++p) {
        if (!specs[p].trained) continue;
        Tensor ours = got[s].parameters[p].value;
        Tensor theirs = expected[s].parameters[p].value;
        for (std::size_t i = 0; i < ours.size(); ++i) {
          ours.data()[i] -= from[s].parameters[p].value.data()[i];
          theirs.data()[i] -= from[s].parameters[p].value.data()[i];
        }
        // Where a value is next to 0, rounding decides the slope of a ReLU. With other images this has come to 0.045.
        EXPECT_LT(distance(ours, theirs), 0.05) << specs[p].name;
      }
    }
  }
}

TEST_P(ShippedNets, TrainOnOneAndOnSeveralNodesAsOnOneDevice) {
  const Net net = GetParam().read();
  const Cut parts = cut(net);
  expect_equal_on_nodes(net, parts, {initial_trunk(parts, 1), {}}, GetParam().batch);
}

class NetsWithSlices : public testing::TestWithParam<Shipped> {};

TEST_P(NetsWithSlices, TrainOnOneAndOnSeveralNodesAsOnOneDevice) {
  const Net net = GetParam().read();
  const Cut parts = cut(net);
  const DenseSlices slices = slice_dense(parts, 3).value();
  const ModelState model{initial_trunk(parts, 1), initial_heads(parts, 1)};
  expect_equal_on_nodes(net, slices.cut, sliced(model, slices), GetParam().batch);
}

INSTANTIATE_TEST_SUITE_P(Nets, ShippedNets, kShippedNets, test_name);
INSTANTIATE_TEST_SUITE_P(Nets, NetsWithSlices,
                         testing::Values(Shipped{"lenet", {}}, Shipped{"lenet-tanh", {}}, Shipped{"glyphs", {}},
                                         Shipped{"cifar10-50-500", {}},
                                         Shipped{"alexnet", {"input.height=99", "input.width=99", "fc6.units=250"}}),
                         test_name);

}  // namespace
}  // namespace convoy
