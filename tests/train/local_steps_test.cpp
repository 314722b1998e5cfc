// Replicas that train by themselves, in one process: against one machine, against join, and against machines whose
// models the test averages itself; and what a lost member costs.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/local_steps.hpp"

namespace convoy {
namespace {

/// The batch of one replica in a step.
LabelledImages part_of(const Cut& cut, const LabelledImages& step, int part) {
  LabelledImages made{{Pixels(input_shape(cut.trunk[0], kBatch)), step.images.scales}, {}};
  std::ranges::copy(step.images.pixels.samples(part * kBatch, kBatch), made.images.pixels.data());
  made.labels.assign(step.labels.begin() + part * kBatch, step.labels.begin() + (part + 1) * kBatch);
  return made;
}

/// Trains one machine on the batches of replica `part` of `replicas`, steps first + 1 to last.
void train_part(OneMachine& machine, const NetCase& c, const Cut& cut, int part, int replicas, int first, int last) {
  for (int step = first; step < last; ++step) {
    const LabelledImages at = part_of(cut, images_of(cut, step, replicas * kBatch), part);
    const Pass pass{.training = true, .seed = static_cast<std::uint64_t>(step) + 7, .step = step + 1};
    train_step(machine.learner, at.images, at.labels, pass,
               [&](double norm) { return update_step(c.training, c.training.learning_rate, step + 1, norm); });
  }
}

class StepsByThemselves : public testing::TestWithParam<NetCase> {
 protected:
  static NetCase unclipped() {
    NetCase c = GetParam();
    c.training.clip = 0.0;
    return c;
  }
};

/// Nets without dropout, the masks of which have seeds that the learner draws for each batch.
class StepsOfMachines : public StepsByThemselves {};

/// Batch norm and dropout included, whether or not a step ends with an exchange.
TEST_P(StepsByThemselves, OfOneReplicaEqualOneMachineToTheBit) {
  const NetCase c = unclipped();
  const Cut cut = net_of(c);
  for (const int period : {1, 2, 5}) {
    OneMachine machine(cut, kBatch);
    LocalSteps local(cut, 1, {period});
    EXPECT_EQ(train_some(*local.learner, c, cut, kBatch), train_some(machine.learner, c, cut, kBatch));
    expect_equal(*local.learner->state(), *machine.learner.state());
  }
}

/// What the exchange means, computed by the test: machines that know nothing of one another, and the mean of their
/// models.
TEST_P(StepsOfMachines, AreAveraged) {
  const NetCase c = unclipped();
  const Cut cut = net_of(c);
  constexpr int kReplicas = 3;
  constexpr int kPeriod = 5;
  TrainingState mean = initial(cut);
  for (int first = 0; first < kSteps; first += kPeriod) {
    std::vector<ModelState> models;
    for (int part = 0; part < kReplicas; ++part) {
      OneMachine machine(cut, kBatch);
      machine.learner.load(mean);
      train_part(machine, c, cut, part, kReplicas, first, first + kPeriod);
      models.push_back(*machine.learner.state());
    }
    mean = {std::make_shared<const ModelState>(mean_of(models))};
  }
  LocalSteps local(cut, kReplicas, {kPeriod});
  train_some(*local.learner, c, cut, kReplicas * kBatch);
  expect_equal(*local.learner->state(), *mean.model);
}

/// In bf16 replicas begin with the rounded mean, and what they have changed is rounded, but the mean is not. Dense
/// layers do not travel, and are not rounded at all.
TEST_P(StepsOfMachines, AreAveragedByTheirChangesInBf16) {
  const NetCase c = unclipped();
  const Cut cut = net_of(c);
  constexpr int kParts = 3;
  constexpr int kPeriod = 5;
  TrainingState mean = initial(cut);
  for (int first = 0; first < kSteps; first += kPeriod) {
    const TrainingState begin{std::make_shared<const ModelState>(rounded(*mean.model, cut, NumberType::bf16))};
    std::vector<ModelState> models;
    for (int part = 0; part < kParts; ++part) {
      OneMachine machine(cut, kBatch);
      machine.learner.load(begin);
      train_part(machine, c, cut, part, kParts, first, first + kPeriod);
      ModelState model = *machine.learner.state();
      for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
        subtract_trained(cut.trunk[s], begin.model->trunk[s], model.trunk[s]);
      }
      models.push_back(rounded(std::move(model), cut, NumberType::bf16));
    }
    ModelState next = mean_of(std::move(models));
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
      add_trained(cut.trunk[s], mean.model->trunk[s], next.trunk[s]);
    }
    mean = {std::make_shared<const ModelState>(std::move(next))};
  }
  LocalSteps local(cut, kParts, {kPeriod});
  local.learner->carry_in(NumberType::bf16);
  train_some(*local.learner, c, cut, kParts * kBatch);
  expect_equal(*local.learner->state(), *mean.model);
}

/// Machines that keep their moments where only weights are averaged, and take over the mean of the moments where these
/// are averaged, too.
TEST_P(StepsOfMachines, KeepTheirMomentsBetweenExchangesOfThese) {
  const NetCase c = unclipped();
  const Cut cut = net_of(c);
  constexpr int kParts = 3;
  const ExchangePeriod period{.steps = 2, .moments = 4};
  std::vector<std::unique_ptr<OneMachine>> machines;
  for (int part = 0; part < kParts; ++part) machines.push_back(std::make_unique<OneMachine>(cut, kBatch));
  for (int first = 0; first < kSteps; first += period.steps) {
    std::vector<ModelState> models;
    for (int part = 0; part < kParts; ++part) {
      train_part(*machines[part], c, cut, part, kParts, first, first + period.steps);
      models.push_back(*machines[part]->learner.state());
    }
    const ModelState mean = mean_of(models);
    for (int part = 0; part < kParts; ++part) {
      ModelState next = mean;
      if ((first + period.steps) % period.moments != 0) take_moments(models[part], next);
      machines[part]->learner.load({std::make_shared<const ModelState>(std::move(next))});
    }
  }
  LocalSteps local(cut, kParts, period);
  train_some(*local.learner, c, cut, kParts * kBatch);
  ModelState got = values_of(*local.learner->state());
  expect_equal(got, values_of(*machines[0]->learner.state()));
}

/// A change that is far smaller than what bf16 tells apart from its weight is not lost.
TEST(StepsInBf16, KeepSmallChanges) {
  NetCase c = kPlainNets[0];
  c.training.learning_rate = 1e-6;
  const Cut cut = net_of(c);
  LocalSteps exact(cut, 2, {2});
  LocalSteps local(cut, 2, {2});
  local.learner->carry_in(NumberType::bf16);
  const std::shared_ptr<const ModelState> before = local.learner->state();
  train_some(*exact.learner, c, cut, 2 * kBatch);
  train_some(*local.learner, c, cut, 2 * kBatch);
  const auto got = local.learner->state();
  const auto expected = exact.learner->state();
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
    ShardState moved = got->trunk[s];
    ShardState should = expected->trunk[s];
    subtract_trained(cut.trunk[s], before->trunk[s], moved);
    subtract_trained(cut.trunk[s], before->trunk[s], should);
    expect_near_in_norm(moved, should, 0.05);
    EXPECT_GT(std::sqrt(sum_of_squares<float>(should.weights().span())), 0.0);
  }
}

TEST_P(StepsByThemselves, GoOnFromAStateToTheBit) {
  const NetCase c = unclipped();
  const Cut cut = net_of(c);
  for (const NumberType type : {NumberType::fp32, NumberType::bf16}) {
    LocalSteps straight(cut, 2, {2});
    straight.learner->carry_in(type);
    train_some(*straight.learner, c, cut, 2 * kBatch);
    LocalSteps before(cut, 2, {2});
    before.learner->carry_in(type);
    train_some(*before.learner, c, cut, 2 * kBatch, 0, 4);
    LocalSteps after(cut, 2, {2});
    after.learner->carry_in(type);
    after.learner->load({before.learner->state(), {.batch = 4}});
    train_some(*after.learner, c, cut, 2 * kBatch, 4, kSteps);
    expect_equal(*after.learner->state(), *straight.learner->state());
  }
}

INSTANTIATE_TEST_SUITE_P(PlainNets, StepsByThemselves, testing::ValuesIn(kPlainNets), name_of);
INSTANTIATE_TEST_SUITE_P(PlainNets, StepsOfMachines, testing::ValuesIn(kPlainNets), name_of);
INSTANTIATE_TEST_SUITE_P(BatchNorm, StepsOfMachines,
                         testing::Values(NetCase{"BatchNorm", {.learning_rate = 0.05, .momentum = 0.9}, true}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(BatchNormAndDropout, StepsByThemselves,
                         testing::Values(NetCase{
                             "BatchNormAndDropout", {.learning_rate = 0.05, .momentum = 0.9}, true, true}),
                         name_of);

/// The update by SGD is linear in the gradient, with momentum and weight decay. So the mean of the updated models is
/// what an update by the mean gradient gives.
TEST(LocalStepsOfOne, EqualJoinWithSgdUpToRounding) {
  for (const NetCase& c :
       {NetCase{"Plain", {.learning_rate = 0.05, .momentum = 0.0}},
        NetCase{"Momentum", {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.001}, true, true},
        NetCase{"Nesterov", {.optimizer = Optimizer::nesterov, .learning_rate = 0.05, .momentum = 0.9}}}) {
    const Cut cut = net_of(c);
    const double tolerance = 64.0 * kSteps * std::sqrt(9.0 * 7.0 * 2.0 * kBatch) * 0x1.0p-24;
    const Cut bare = without_moments(cut);
    const auto device = make_device("eigen", {.threads = 1});
    LocalTrunk trunk(bare.trunk, input_shape(bare.trunk[0], kBatch), *device);
    std::vector<std::unique_ptr<Replica>> replica;
    replica.push_back(std::make_unique<Replica>(trunk, bare, kBatch, 1));
    JoinLearner join(std::move(replica), cut, kBatch, 3, 0, 1);
    join.load(initial(cut));
    LocalSteps local(cut, 3, {1});
    EXPECT_NEAR(train_some(*local.learner, c, cut, 3 * kBatch), train_some(join, c, cut, 3 * kBatch),
                tolerance * kSteps * 3 * kBatch)
        << c.name;
    const auto got = local.learner->state();
    const auto expected = join.state();
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(got->trunk[s], expected->trunk[s], tolerance);
    for (std::size_t d = 0; d < got->head.size(); ++d) {
      expect_near(ShardState{{got->head[d].weights, got->head[d].bias}},
                  ShardState{{expected->head[d].weights, expected->head[d].bias}}, tolerance);
    }
  }
}

/// With longer periods they train otherwise; the tests of equality above would not notice an exchange after every step.
TEST(LocalStepsOfSeveral, DifferFromJoin) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  LocalSteps often(cut, 2, {1});
  LocalSteps seldom(cut, 2, {5});
  train_some(*often.learner, c, cut, 2 * kBatch);
  train_some(*seldom.learner, c, cut, 2 * kBatch);
  EXPECT_FALSE(same_bits(often.learner->state()->trunk[0], seldom.learner->state()->trunk[0]));
}

// ---- losses --------------------------------------------------------------------------------------------------------

/// A replica that loses a member in the third of five steps has trained from the mean by the last three batches.
TEST(LocalStepsWithLosses, GoOnFromTheLastMean) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  LocalSteps local(cut, 2, {5}, 8);
  train_some(*local.learner, c, cut, 2 * kBatch);
  EXPECT_EQ(local.all[0]->losses(), 1);
  LocalSteps undisturbed(cut, 2, {5});
  train_some(*undisturbed.learner, c, cut, 2 * kBatch, 0, 5);
  const TrainingState mean{undisturbed.learner->state()};
  OneMachine lost(cut, kBatch);
  lost.learner.load(mean);
  train_part(lost, c, cut, 0, 2, 7, 10);
  OneMachine other(cut, kBatch);
  other.learner.load(mean);
  train_part(other, c, cut, 1, 2, 5, 10);
  expect_equal(*local.learner->state(), mean_of({*lost.learner.state(), *other.learner.state()}));
}

TEST(LocalStepsWithLosses, LeaveAModelThatIsLostOutOfTheMean) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  LocalSteps local(cut, 2, {5}, -1);
  train_some(*local.learner, c, cut, 2 * kBatch, 0, 5);
  EXPECT_EQ(local.all[0]->losses(), 1);
  OneMachine other(cut, kBatch);
  train_part(other, c, cut, 1, 2, 0, 5);
  expect_equal(*local.learner->state(), *other.learner.state());
}

/// Steps without any model would be lost without a word.
TEST(LocalStepsWithLosses, GoBackWhereNoModelIsLeft) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  LocalSteps local(cut, 1, {5}, -1);
  EXPECT_THROW(train_some(*local.learner, c, cut, kBatch, 0, 5), Rewound);
  EXPECT_TRUE(local.learner->has_model());
  train_some(*local.learner, c, cut, kBatch, 0, kSteps);
  OneMachine machine(cut, kBatch);
  train_some(machine.learner, c, cut, kBatch);
  expect_equal(*local.learner->state(), *machine.learner.state());
}

/// A replica that loses a member has the mean of the moments as they were exchanged last, here before the first step.
TEST(LocalStepsWithLosses, GoOnFromTheLastMeanWithTheLastMoments) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  const ExchangePeriod period{.steps = 2, .moments = 4};
  LocalSteps local(cut, 2, period, 3);
  train_some(*local.learner, c, cut, 2 * kBatch, 0, 4);
  EXPECT_EQ(local.all[0]->losses(), 1);
  std::vector<ModelState> models;
  for (int part = 0; part < 2; ++part) {
    OneMachine machine(cut, kBatch);
    train_part(machine, c, cut, part, 2, 0, 2);
    models.push_back(*machine.learner.state());
  }
  const ModelState mean = mean_of(models);
  std::vector<ModelState> after;
  for (int part = 0; part < 2; ++part) {
    ModelState begin = mean;
    take_moments(part == 0 ? *initial(cut).model : models[1], begin);
    OneMachine machine(cut, kBatch);
    machine.learner.load({std::make_shared<const ModelState>(std::move(begin))});
    train_part(machine, c, cut, part, 2, 2, 4);
    after.push_back(*machine.learner.state());
  }
  expect_equal(*local.learner->state(), mean_of(after));
}

/// Steps are done again from the last mean, and the moments of the last exchange of these: a whole model.
TEST(LocalStepsWithLosses, GoBackBetweenExchangesOfMoments) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  LocalSteps local(cut, 1, {.steps = 2, .moments = 8});
  train_some(*local.learner, c, cut, kBatch, 0, 2);
  EXPECT_FALSE(local.learner->has_model());
  local.trunks[0]->lose_the_next_snapshot();
  EXPECT_THROW(train_some(*local.learner, c, cut, kBatch, 2, 4), Rewound);
  EXPECT_TRUE(local.learner->has_model());
  const ModelState mean = *local.learner->state();
  train_some(*local.learner, c, cut, kBatch, 2, 4);
  OneMachine machine(cut, kBatch);
  machine.learner.load({std::make_shared<const ModelState>(mean)});
  train_part(machine, c, cut, 0, 1, 2, 4);
  expect_equal(values_of(*local.learner->state()), values_of(*machine.learner.state()));
}

/// A state that is loaded replaces the moments that replicas would have kept.
TEST(LocalStepsWithMoments, AreLoadedWhole) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  const ExchangePeriod period{.steps = 2, .moments = 4};
  LocalSteps used(cut, 2, period);
  train_some(*used.learner, c, cut, 2 * kBatch, 0, 2);
  used.learner->load(initial(cut));
  train_some(*used.learner, c, cut, 2 * kBatch, 0, 4);
  LocalSteps fresh(cut, 2, period);
  train_some(*fresh.learner, c, cut, 2 * kBatch, 0, 4);
  expect_equal(*used.learner->state(), *fresh.learner->state());
}

/// Without its slaves a replica holds nobody up; the loss is told as if its images had that of the others.
TEST(LocalStepsWithLosses, DoWithoutAReplicaThatIsNotWhole) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  LocalSteps local(cut, 2, {2});
  train_some(*local.learner, c, cut, 2 * kBatch, 0, 2);
  const TrainingState mean{local.learner->state()};
  local.all[0]->set_whole(false);
  OneMachine other(cut, kBatch);
  other.learner.load(mean);
  const double loss = train_some(*local.learner, c, cut, 2 * kBatch, 2, 4);
  train_part(other, c, cut, 1, 2, 2, 4);
  expect_equal(*local.learner->state(), *other.learner.state());
  EXPECT_GT(loss, 0.0);
  local.all[0]->set_whole(true);
  LocalSteps both(cut, 2, {2});
  both.learner->load({local.learner->state(), {.batch = 4}});
  train_some(*local.learner, c, cut, 2 * kBatch, 4, 6);
  train_some(*both.learner, c, cut, 2 * kBatch, 4, 6);
  expect_equal(*local.learner->state(), *both.learner->state());
}

TEST(LocalStepsThatDiverge, NameTheFirstLayerAndStep) {
  const Cut cut = net_of(kDiverging);
  LocalSteps local(cut, 2, {5});
  expect_diverges(*local.learner, cut);
}

}  // namespace
}  // namespace convoy
