// Asynchronous training in one process, with trunks that take their time: which gradients are taken when, how stale
// they are, and what is saved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/train/replica_nets.hpp"
#include "train/async_learner.hpp"

namespace convoy {
namespace {

constexpr int kBatches = 12;  ///< of an epoch

/// A trunk whose outputs take a random number of polls to come, and which notes the steps of its training passes.
class SlowTrunk : public LocalTrunk {
 public:
  SlowTrunk(const Cut& cut, Device& device, int slowness, std::vector<long>& steps)
      : LocalTrunk(cut.trunk, input_shape(cut.trunk[0], kBatch), device),
        random_(kSeed, static_cast<std::uint64_t>(slowness)),
        slowness_(slowness),
        steps_(steps) {}
  void begin(const Images& images, const Pass& pass) override {
    LocalTrunk::begin(images, pass);
    if (pass.training) steps_.push_back(pass.step);
    left_ = slowness_ == 0 ? 0 : static_cast<int>(random_.below(static_cast<std::uint32_t>(slowness_)));
  }
  bool outputs_ready() const override { return left_ == 0; }
  bool poll() override { return left_-- > 0; }

 private:
  Random random_;
  int slowness_;
  int left_ = 0;
  std::vector<long>& steps_;
};

Cut small_net() {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 1,
                .height = 6,
                .width = 6,
                .conv = {.filters = 4, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {BatchNorm{.name = "norm1"}, Activation::tanh}}};
  cut.heads = {{.maps = {4, 6, 6},
                .layers = {{.name = "dense1", .spec = Dense{3}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  return cut;
}

DataSet random_data() {
  DataSet data{.name = "random", .classes = 3};
  Random random(kSeed, 1);
  for (ImageSet* images : {&data.training, &data.test}) {
    images->shape = {1, 6, 6};
    for (int i = 0; i < kBatch * kBatches; ++i) images->labels.push_back(static_cast<std::uint8_t>(random.below(3)));
    for (std::size_t i = 0; i < images->labels.size() * 36; ++i)
      images->pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  return data;
}

struct Saved {
  Progress progress;
  std::shared_ptr<const ModelState> model;
  std::vector<long> begun;  ///< steps of the batches that were begun before
};

class Watch : public Observer {
 public:
  explicit Watch(std::vector<StepReport>& reports) : reports_(reports) {}
  void on_step(const StepReport& report) override { reports_.push_back(report); }

 private:
  std::vector<StepReport>& reports_;
};

class Asynchronously : public testing::Test {
 protected:
  Asynchronously() {
    net_.training = {.batch = kBatch, .epochs = 2, .learning_rate = 0.05, .momentum = 0.9, .clip = 0.5};
    observers_.push_back(std::make_unique<Watch>(reports_));
  }

  std::unique_ptr<AsyncLearner> learner_of(int replicas, std::optional<int> bound, const std::vector<int>& slowness) {
    std::vector<std::unique_ptr<Replica>> made;
    for (int r = 0; r < replicas; ++r) {
      trunks_.push_back(std::make_unique<SlowTrunk>(bare_, *device_, slowness[r], begun_));
      made.push_back(std::make_unique<Replica>(*trunks_.back(), bare_, kBatch, 1));
    }
    tested_ = std::make_unique<Batches>(data_, Part::test, replicas * kBatch, kSeed, Augmentation{});
    return std::make_unique<AsyncLearner>(std::move(made), cut_, kBatch, replicas, bound, 1);
  }

  Outcome train_with(Learner& learner, double checkpoint_seconds = 1e9, long max_steps = 0) {
    const Training training{.net = net_,
                            .training = training_,
                            .test = *tested_,
                            .seed = kSeed,
                            .max_steps = max_steps,
                            .checkpoint_seconds = checkpoint_seconds,
                            .stop = stop_};
    const ModelState start{initial_trunk(cut_, kSeed), initial_heads(cut_, kSeed)};
    return train(training, learner, {std::make_shared<const ModelState>(start)}, observers_,
                 [this](const TrainingState& state) {
                   saved_.push_back({state.progress, state.model, begun_});
                 });
  }

  Cut cut_ = small_net();
  Cut bare_ = without_moments(cut_);
  std::unique_ptr<Device> device_ = make_device("eigen", {.threads = 1});
  std::vector<std::unique_ptr<SlowTrunk>> trunks_;
  std::vector<long> begun_;
  Net net_;
  DataSet data_ = random_data();
  Batches training_{data_, Part::training, kBatch, kSeed, Augmentation{}};
  std::unique_ptr<Batches> tested_ = std::make_unique<Batches>(data_, Part::test, kBatch, kSeed, Augmentation{});
  std::atomic<bool> stop_{false};
  std::vector<StepReport> reports_;
  Observers observers_;
  std::vector<Saved> saved_;
};

TEST_F(Asynchronously, OneReplicaTrainsAsOneMachineToTheBit) {
  LocalTrunk trunk(cut_.trunk, input_shape(cut_.trunk[0], kBatch), *device_);
  NetLearner whole(trunk, cut_, kBatch, 1);
  train_with(whole);
  const auto learner = learner_of(1, std::nullopt, {5});
  const Outcome outcome = train_with(*learner);
  ASSERT_EQ(saved_.size(), 4U) << "each run saves at the end of its two epochs";
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(saved_[i].progress, saved_[i + 2].progress);
    EXPECT_TRUE(same_bits(saved_[i].model->trunk[0], saved_[i + 2].model->trunk[0]));
    EXPECT_TRUE(std::ranges::equal(saved_[i].model->head[0].weights.value.span(),
                                   saved_[i + 2].model->head[0].weights.value.span()));
  }
  EXPECT_EQ(outcome.staleness->most, 0);
}

TEST_F(Asynchronously, ABoundOfZeroIsOneMachineToTheBit) {
  const auto one = learner_of(1, std::nullopt, {0});
  train_with(*one);
  const auto bounded = learner_of(kReplicas, 0, {3, 7, 1, 9});
  train_with(*bounded);
  EXPECT_TRUE(same_bits(saved_[1].model->trunk[0], saved_[3].model->trunk[0]));
}

TEST_F(Asynchronously, EachBatchIsComputedOnce) {
  const auto learner = learner_of(kReplicas, std::nullopt, {3, 17, 1, 9});
  const Outcome outcome = train_with(*learner);
  EXPECT_EQ(outcome.steps, 2 * kBatches);
  EXPECT_THAT(begun_, testing::UnorderedElementsAreArray([] {
                std::vector<long> all(2 * kBatches);
                std::iota(all.begin(), all.end(), 1);
                return all;
              }()));
  EXPECT_EQ(outcome.progress, Progress{.epoch = 2});
}

/// Slow replicas make gradients stale, as far as the bound lets them.
TEST_F(Asynchronously, StalenessKeepsItsBound) {
  for (const int bound : {0, 1, 2, 3, 6}) {
    reports_.clear();
    net_.training.epochs = 6;
    const auto learner = learner_of(kReplicas, bound, {2, 40, 1, 90});
    const Outcome outcome = train_with(*learner);
    long most = 0;
    double sum = 0.0;
    for (const StepReport& report : reports_) {
      ASSERT_TRUE(report.staleness);
      most = std::max(most, *report.staleness);
      sum += static_cast<double>(*report.staleness);
    }
    EXPECT_LE(most, bound);
    EXPECT_EQ(most, bound) << "replicas as slow as these reach the bound";
    EXPECT_EQ(outcome.staleness->most, most);
    EXPECT_NEAR(outcome.staleness->mean, sum / static_cast<double>(reports_.size()), 1e-9);
  }
}

TEST_F(Asynchronously, WithoutABoundASlowReplicaIsFarBehind) {
  const auto learner = learner_of(2, std::nullopt, {1, 4000});
  net_.training.epochs = 1;
  const Outcome outcome = train_with(*learner);
  EXPECT_GT(outcome.staleness->most, 2);
}

/// What is saved is the model of the batches before it, all of them and no others.
TEST_F(Asynchronously, CheckpointsHaveEachBatchBeforeThem) {
  const auto learner = learner_of(kReplicas, std::nullopt, {3, 17, 1, 9});
  train_with(*learner, 0.0, 17);
  ASSERT_GT(saved_.size(), 3U);
  for (const Saved& each : saved_) {
    const long steps = static_cast<long>(each.progress.epoch) * kBatches + each.progress.batch;
    EXPECT_EQ(*std::ranges::max_element(each.begun), steps);
    EXPECT_EQ(static_cast<long>(each.begun.size()), steps);
  }
  EXPECT_EQ(saved_.back().progress.epoch, 1);
  EXPECT_EQ(saved_.back().progress.batch, 17 - kBatches);
}

/// Ends training after some steps.
class Stopping : public Observer {
 public:
  explicit Stopping(std::atomic<bool>& stop) : stop_(stop) {}
  void on_step(const StepReport& report) override {
    if (report.step == 5) stop_ = true;
  }

 private:
  std::atomic<bool>& stop_;
};

TEST_F(Asynchronously, AnInterruptionTakesWhatWasGiven) {
  const auto learner = learner_of(kReplicas, std::nullopt, {3, 17, 1, 9});
  observers_.push_back(std::make_unique<Stopping>(stop_));
  const Outcome outcome = train_with(*learner);
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(static_cast<long>(begun_.size()), outcome.steps);
  EXPECT_GE(outcome.steps, 5);
  EXPECT_LE(outcome.steps, 5 + kReplicas);
}

// ---- backups -------------------------------------------------------------------------------------------------------

class WithBackups : public Asynchronously {
 protected:
  std::unique_ptr<JoinLearner> join_of(int backups, const std::vector<int>& slowness) {
    std::vector<std::unique_ptr<Replica>> made;
    for (const int slow : slowness) {
      trunks_.push_back(std::make_unique<SlowTrunk>(bare_, *device_, slow, begun_));
      made.push_back(std::make_unique<Replica>(*trunks_.back(), bare_, kBatch, 1));
    }
    auto learner = std::make_unique<JoinLearner>(std::move(made), cut_, kBatch, kReplicas, backups, 1);
    learner->load(
        {std::make_shared<const ModelState>(ModelState{initial_trunk(cut_, kSeed), initial_heads(cut_, kSeed)})});
    return learner;
  }

  /// Trains a step, and returns its loss.
  double step(Learner& learner, int number) {
    const auto stream = static_cast<std::uint64_t>(number);
    const Images images = noise_images(input_shape(cut_.trunk[0], kReplicas * kBatch), kSeed, 200 + stream);
    std::vector<int> labels(kReplicas * kBatch);
    Random random(kSeed, 100 + stream);
    for (int& label : labels) label = static_cast<int>(random.below(3));
    return train_step(learner, images, labels, {.training = true, .seed = 1, .step = number + 1},
                      [&](double norm) { return update_step(net_.training, 0.05, number + 1, norm); })
        .sum;
  }
};

TEST_F(WithBackups, OfNoneAreJoinToTheBit) {
  const auto join = join_of(0, {0, 0, 0, 0});
  const auto backup = join_of(0, {9, 3, 30, 1});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(*join, i), step(*backup, i));
  EXPECT_TRUE(same_bits(join->state()->trunk[0], backup->state()->trunk[0]));
}

/// The last replica never ends, so its gradients are in no step, and the loss is that of the others.
TEST_F(WithBackups, ASlowReplicaHoldsNobodyUp) {
  constexpr int kForEver = 1 << 30;
  const auto backup = join_of(1, {0, 0, 0, kForEver});
  for (int i = 0; i < 5; ++i) step(*backup, i);
  EXPECT_FALSE(backup->broken());
  EXPECT_EQ(begun_.size(), kReplicas + 4U * (kReplicas - 1)) << "the slow replica begins in the first step alone";
}

TEST_F(WithBackups, TheMeanIsThatOfTheGradientsThatCame) {
  constexpr int kForEver = 1 << 30;
  const auto backup = join_of(1, {0, 0, 0, kForEver});
  const double loss = step(*backup, 0);
  // Three batches of the same step: their mean is that of a step of three.
  std::vector<std::unique_ptr<Replica>> made;
  trunks_.push_back(std::make_unique<SlowTrunk>(bare_, *device_, 0, begun_));
  made.push_back(std::make_unique<Replica>(*trunks_.back(), bare_, kBatch, 1));
  JoinLearner three(std::move(made), cut_, kBatch, 3, 0, 1);
  three.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut_, kSeed), initial_heads(cut_, kSeed)})});
  const Images images = noise_images(input_shape(cut_.trunk[0], kReplicas * kBatch), kSeed, 200);
  std::vector<int> labels(kReplicas * kBatch);
  Random random(kSeed, 100);
  for (int& label : labels) label = static_cast<int>(random.below(3));
  Images some{Pixels(input_shape(cut_.trunk[0], 3 * kBatch)), images.scales};
  std::ranges::copy(images.pixels.samples(0, 3 * kBatch), some.pixels.data());
  labels.resize(3 * kBatch);
  const double right = train_step(three, some, labels, {.training = true, .seed = 1, .step = 1}, [&](double norm) {
                         return update_step(net_.training, 0.05, 1, norm);
                       }).sum;
  EXPECT_DOUBLE_EQ(loss, right * 4.0 / 3.0);
  EXPECT_TRUE(same_bits(backup->state()->trunk[0], three.state()->trunk[0]));
}

}  // namespace
}  // namespace convoy
