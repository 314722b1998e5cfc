// Outer steps: against the formula in double for each value, and in a learner, against the mean of one without them.

#include <gtest/gtest.h>

#include "tests/train/replica_nets.hpp"
#include "train/local_steps_learner.hpp"
#include "train/outer_step.hpp"

namespace convoy {
namespace {

constexpr int kPair = 2;
constexpr int kEvery = 2;
constexpr OuterStep kStep{.momentum = 0.9, .rate = 0.7};

struct Value {
  float* at;
  bool trained;  ///< a running average otherwise
};

/// The weights, biases and running averages of a model, in a fixed order.
std::vector<Value> values_of(const Cut& cut, ModelState& model) {
  std::vector<Value> values;
  const auto add = [&](Tensor& tensor, bool trained) {
    for (float& each : tensor.span()) values.push_back({&each, trained});
  };
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
    const std::vector<ParameterSpec> specs = parameters_of(cut.trunk[s], cut.trunk[s].conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) add(model.trunk[s].parameters[p].value, specs[p].trained);
  }
  for (DenseState<float>& dense : model.head) {
    add(dense.weights.value, true);
    add(dense.bias.value, true);
  }
  return values;
}

/// Each value of the model, moved by a distance of its own.
ModelState moved(const Cut& cut, const ModelState& from, std::uint64_t seed) {
  ModelState to = from;
  Random random(seed, 0);
  for (const Value& value : values_of(cut, to)) *value.at += 0.1F * random.normal();
  return to;
}

const NetCase kNormed{"Normed", {.learning_rate = 0.05, .momentum = 0.9}, true};

TEST(OuterSteps, FollowTheFormula) {
  const Cut cut = net_of(kNormed);
  ModelState model = *initial(cut).model;
  std::vector<double> velocity(values_of(cut, model).size(), 0.0);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    ModelState old = model;
    ModelState mean = moved(cut, model, round);
    model = outer_step(kStep, cut, old, mean);
    const std::vector<Value> from = values_of(cut, old);
    const std::vector<Value> to = values_of(cut, mean);
    const std::vector<Value> got = values_of(cut, model);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!got[i].trained) {
        ASSERT_EQ(*got[i].at, *to[i].at) << "running averages are the mean's";
        continue;
      }
      const double d = static_cast<double>(*from[i].at) - *to[i].at;
      velocity[i] = kStep.momentum * velocity[i] + d;
      ASSERT_NEAR(*got[i].at, *from[i].at - kStep.rate * (d + kStep.momentum * velocity[i]), 1e-6);
    }
  }
}

/// Replicas on one device.
struct Outer {
  Outer(const Cut& cut, OuterStep step) {
    std::vector<std::unique_ptr<Replica>> made;
    for (int i = 0; i < kPair; ++i) {
      trunks.push_back(std::make_unique<LocalTrunk>(cut.trunk, input_shape(cut.trunk[0], kBatch), *device));
      made.push_back(std::make_unique<Replica>(*trunks.back(), cut, kBatch, 1));
    }
    learner.emplace(std::move(made), cut, kBatch, kPair, ExchangePeriod{.steps = kEvery}, 1, step);
    learner->load(initial(cut));
  }
  void train(const NetCase& c, const Cut& cut, int first, int last) {
    train_some(*learner, c, cut, kPair * kBatch, first, last);
  }
  std::unique_ptr<Device> device = make_device("eigen", {.threads = 1});
  std::vector<std::unique_ptr<LocalTrunk>> trunks;
  std::optional<LocalStepsLearner> learner;
};

/// The first exchange: the same mean as without an outer step, from which it goes on by itself.
TEST(OuterSteps, StartFromTheMean) {
  const Cut cut = net_of(kNormed);
  Outer plain(cut, {});
  Outer outer(cut, kStep);
  plain.train(kNormed, cut, 0, kEvery);
  outer.train(kNormed, cut, 0, kEvery);
  const ModelState expected = outer_step(kStep, cut, *initial(cut).model, *plain.learner->state());
  expect_equal(*outer.learner->state(), expected);
  ASSERT_TRUE(outer.learner->state()->outer);
  expect_equal(*outer.learner->state()->outer, *expected.outer);
  EXPECT_FALSE(plain.learner->state()->outer) << "a mean has no velocity";
}

/// The velocity is part of the state.
TEST(OuterSteps, GoOnFromAStateToTheBit) {
  const Cut cut = net_of(kNormed);
  Outer straight(cut, kStep);
  straight.train(kNormed, cut, 0, 8);
  Outer before(cut, kStep);
  before.train(kNormed, cut, 0, 4);
  Outer after(cut, kStep);
  after.learner->load({before.learner->state(), {.batch = 4}});
  after.train(kNormed, cut, 4, 8);
  expect_equal(*after.learner->state(), *straight.learner->state());
  ModelState forgetful = *before.learner->state();
  forgetful.outer.reset();
  Outer without(cut, kStep);
  without.learner->load({std::make_shared<const ModelState>(forgetful), {.batch = 4}});
  without.train(kNormed, cut, 4, 8);
  EXPECT_FALSE(same_bits(without.learner->state()->trunk[0], straight.learner->state()->trunk[0]));
}

}  // namespace
}  // namespace convoy
