// Replicas in one process: a step of `join` against one machine with a larger batch, and against gradients that the
// test averages itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/train/replica_nets.hpp"
#include "train/replica_learner.hpp"

namespace convoy {
namespace {

/// Replicas on one device.
struct Replicas {
  Replicas(const Cut& cut, int replicas, int parts) : bare(without_moments(cut)) {
    std::vector<std::unique_ptr<Replica>> made;
    for (int i = 0; i < replicas; ++i) {
      trunks.push_back(std::make_unique<LocalTrunk>(bare.trunk, input_shape(bare.trunk[0], kBatch), *device));
      made.push_back(std::make_unique<Replica>(*trunks.back(), bare, kBatch, 1));
    }
    learner.emplace(std::move(made), cut, kBatch, parts, 0, 1);
    learner->load(initial(cut));
  }
  Cut bare;
  std::unique_ptr<Device> device = make_device("eigen", {.threads = 1});
  std::vector<std::unique_ptr<LocalTrunk>> trunks;
  std::optional<JoinLearner> learner;
};

class Joining : public testing::TestWithParam<NetCase> {};

/// Nets without statistics and masks, which belong to each batch.
class JoiningPlainNets : public Joining {};

/// Sums of as many products in another order: ten steps of rounding errors.
TEST_P(JoiningPlainNets, EqualsOneMachineWithALargerBatch) {
  const NetCase& c = GetParam();
  const Cut cut = net_of(c);
  const double tolerance = 64.0 * kSteps * std::sqrt(9.0 * 7.0 * 2.0 * kBatch) * 0x1.0p-24;
  for (const auto& [replicas, parts] : {std::pair{2, 2}, std::pair{2, 3}, std::pair{1, 3}}) {
    OneMachine whole(cut, parts * kBatch);
    Replicas joined(cut, replicas, parts);
    EXPECT_NEAR(train_some(*joined.learner, c, cut, parts * kBatch), train_some(whole.learner, c, cut, parts * kBatch),
                tolerance * kSteps * parts * kBatch);
    const auto expected = whole.learner.state();
    const auto got = joined.learner->state();
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(got->trunk[s], expected->trunk[s], tolerance);
    for (std::size_t d = 0; d < got->head.size(); ++d) {
      expect_near(ShardState{{got->head[d].weights, got->head[d].bias}},
                  ShardState{{expected->head[d].weights, expected->head[d].bias}}, tolerance);
    }
  }
}

/// With one batch in a step nothing is left of the replicas, batch norm, dropout and clipping included.
TEST_P(Joining, OfOneBatchEqualsOneMachineToTheBit) {
  const NetCase& c = GetParam();
  const Cut cut = net_of(c);
  OneMachine whole(cut, kBatch);
  Replicas joined(cut, 2, 1);
  EXPECT_EQ(train_some(*joined.learner, c, cut, kBatch), train_some(whole.learner, c, cut, kBatch));
  expect_equal(*joined.learner->state(), *whole.learner.state());
}

/// Who computes a batch is not in the result, nor is the order in which replicas end.
TEST_P(Joining, IsTheSameToTheBitForAnyNumberOfReplicas) {
  const NetCase& c = GetParam();
  const Cut cut = net_of(c);
  Replicas one(cut, 1, 3);
  const double loss = train_some(*one.learner, c, cut, 3 * kBatch);
  for (const int replicas : {1, 2, 3, 5}) {
    Replicas several(cut, replicas, 3);
    EXPECT_EQ(train_some(*several.learner, c, cut, 3 * kBatch), loss);
    expect_equal(*several.learner->state(), *one.learner->state());
  }
}

TEST_P(Joining, GoesOnFromAStateToTheBit) {
  const NetCase& c = GetParam();
  const Cut cut = net_of(c);
  Replicas straight(cut, 2, 2);
  train_some(*straight.learner, c, cut, 2 * kBatch);
  Replicas before(cut, 2, 2);
  train_some(*before.learner, c, cut, 2 * kBatch, 0, 4);
  Replicas after(cut, 2, 2);
  after.learner->load({before.learner->state()});
  train_some(*after.learner, c, cut, 2 * kBatch, 4, kSteps);
  expect_equal(*after.learner->state(), *straight.learner->state());
}

TEST_P(Joining, TestsAsOneMachineDoes) {
  const NetCase& c = GetParam();
  const Cut cut = net_of(c);
  OneMachine whole(cut, 3 * kBatch);
  Replicas joined(cut, 2, 3);
  train_some(*joined.learner, c, cut, 3 * kBatch, 0, 2);
  whole.learner.load({joined.learner->state()});
  const LabelledImages at = images_of(cut, 99, 3 * kBatch);
  const Tensor& got = joined.learner->outputs(at.images);
  const Tensor& expected = whole.learner.outputs(at.images);
  ASSERT_EQ(got.shape(), expected.shape());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got.data()[i], expected.data()[i], 1e-5);
  const int count = 2 * kBatch + 1;
  const BatchLoss loss = joined.learner->test_loss(at.labels, count);
  const BatchLoss right = whole.learner.test_loss(at.labels, count);
  EXPECT_NEAR(loss.sum, right.sum, 1e-4);
  EXPECT_EQ(loss.correct, right.correct);
}

INSTANTIATE_TEST_SUITE_P(Nets, JoiningPlainNets, testing::ValuesIn(kPlainNets), name_of);
INSTANTIATE_TEST_SUITE_P(PlainNets, Joining, testing::ValuesIn(kPlainNets), name_of);
INSTANTIATE_TEST_SUITE_P(BatchNormAndDropout, Joining,
                         testing::Values(NetCase{
                             "BatchNormAndDropout", {.learning_rate = 0.05, .momentum = 0.9, .clip = 0.1}, true, true}),
                         name_of);

/// Three replicas: a mean of three equal values may be another value, and a frozen one must stay.
TEST(JoiningWithFrozenLayers, KeepsTheirBits) {
  const NetCase c{"Frozen", {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01}, true};
  Cut cut = net_of(c);
  cut.trunk[0].conv.rate = 0.0F;
  std::get<BatchNorm>(cut.trunk[1].after[0]).rate = 0.0F;
  cut.heads[0].layers[0].rate = 0.0F;
  const ModelState before = *initial(cut).model;
  Replicas joined(cut, 3, 3);
  train_some(*joined.learner, c, cut, 3 * kBatch, 0, 3);
  const auto after = joined.learner->state();
  EXPECT_TRUE(same_bits(after->trunk[0], before.trunk[0]));
  for (std::size_t p = 0; p < before.trunk[1].parameters.size(); ++p) {
    const bool frozen = p >= convolution_parameters(cut.trunk[1]);
    EXPECT_EQ(
        std::ranges::equal(after->trunk[1].parameters[p].value.span(), before.trunk[1].parameters[p].value.span()),
        frozen)
        << p;
  }
  for (std::size_t d = 0; d < 2; ++d) {
    EXPECT_EQ(std::ranges::equal(after->head[d].weights.value.span(), before.head[d].weights.value.span()), d == 0);
    EXPECT_EQ(std::ranges::equal(after->head[d].bias.value.span(), before.head[d].bias.value.span()), d == 0);
  }
}

/// The statistics of each batch are its own, so the gradients are those of single machines, and the running averages of
/// the step are the means of theirs.
TEST(JoiningWithBatchNorm, NormalisesEachBatchByItself) {
  const NetCase c{"BatchNorm", {.learning_rate = 0.05, .momentum = 0.9}, true};
  const Cut cut = net_of(c);
  const LabelledImages at = images_of(cut, 0, 2 * kBatch);
  const Pass pass{.training = true, .step = 1};
  std::vector<ModelState> gradients;
  for (int part = 0; part < 2; ++part) {
    OneMachine one(cut, kBatch);
    Images images{Pixels(input_shape(cut.trunk[0], kBatch)), at.images.scales};
    std::ranges::copy(at.images.pixels.samples(part * kBatch, kBatch), images.pixels.data());
    const std::vector<int> labels(at.labels.begin() + part * kBatch, at.labels.begin() + (part + 1) * kBatch);
    one.learner.accumulate(images, labels, pass);
    one.trunk.begin_gradients();
    gradients.push_back({*one.trunk.take_snapshot(), one.learner.heads().gradients()});
  }
  EXPECT_FALSE(same_bits(gradients[0].trunk[1], gradients[1].trunk[1]));
  ParameterServer server(cut);
  server.load(*initial(cut).model);
  server.update(update_step(c.training, 0.05, 1, 1.0), mean_of(gradients), 1);

  Replicas joined(cut, 2, 2);
  train_some(*joined.learner, c, cut, 2 * kBatch, 0, 1);
  expect_equal(*joined.learner->state(), *server.state());
  const auto state = joined.learner->state();
  const Tensor& mean = state->trunk[1].parameters[4].value;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float both =
        gradients[0].trunk[1].parameters[4].value.data()[i] + gradients[1].trunk[1].parameters[4].value.data()[i];
    EXPECT_FLOAT_EQ(mean.data()[i], both / 2.0F);
    EXPECT_NE(mean.data()[i], 0.0F);
  }

  OneMachine whole(cut, 2 * kBatch);
  train_some(whole.learner, c, cut, 2 * kBatch, 0, 1);
  EXPECT_FALSE(same_bits(whole.learner.state()->trunk[1], joined.learner->state()->trunk[1]))
      << "one machine normalises over the whole step";
}

TEST(JoiningThatDiverges, NamesTheFirstLayerAndStep) {
  const Cut cut = net_of(kDiverging);
  Replicas joined(cut, 2, 2);
  expect_diverges(*joined.learner, cut);
  joined.learner->load(initial(cut));
  EXPECT_FALSE(joined.learner->broken());
}

}  // namespace
}  // namespace convoy
