// The training loop against learners that are made up: where it goes back to when a learner does, and what it saves and
// tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "devices/registry.hpp"
#include "tests/support/images.hpp"
#include "train/local_trunk.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kBatch = 4;
constexpr int kBatches = 3;  ///< of an epoch

DataSet small_data() {
  DataSet data{.name = "made up", .classes = 2};
  for (ImageSet* images : {&data.training, &data.test}) {
    images->shape = {1, 2, 2};
    images->labels.assign(kBatch * kBatches, 0);
    images->pixels.assign(images->labels.size() * 4, 7);
  }
  return data;
}

/// Counts its steps, and goes back to its last kept state when it comes to certain ones.
class ForgetfulLearner : public Learner {
 public:
  explicit ForgetfulLearner(std::vector<int> falls) : falls_(std::move(falls)) {}

  BatchLoss accumulate(const Images&, const Labels&, const Pass&) override {
    if (!falls_.empty() && calls_++ == falls_.front()) {
      falls_.erase(falls_.begin());
      stands_ = kept_;
      throw Rewound(kept_);
    }
    return {.sum = 1.0, .correct = 1};
  }
  double gradient_squares() override { return 0.0; }
  void apply(const UpdateStep&, const Progress& after) override { stands_ = after; }
  void settle() override {}
  std::optional<Broken> broken() const override { return std::nullopt; }
  const Tensor& outputs(const Images&) override {
    ++tested_;
    return outputs_;
  }
  BatchLoss test_loss(const Labels&, int count) override { return {.sum = 0.0, .correct = count}; }
  std::shared_ptr<const ModelState> state() override {
    kept_ = stands_;
    return std::make_shared<const ModelState>();
  }
  void load(TrainingState from) override { stands_ = kept_ = from.progress; }
  std::vector<MemberTime> take_times() override { return {}; }

  int tested() const { return tested_; }

 private:
  std::vector<int> falls_;
  int calls_ = 0;
  Progress stands_;
  Progress kept_;
  Tensor outputs_;
  int tested_ = 0;
};

/// A net of which step 2 breaks a layer. A GPU says so when the next step has begun.
class BrokenLearner : public ForgetfulLearner {
 public:
  explicit BrokenLearner(bool late) : ForgetfulLearner({}), late_(late) {}

  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override {
    ++begun_;
    return ForgetfulLearner::accumulate(images, labels, pass);
  }
  void apply(const UpdateStep& step, const Progress& after) override {
    ++applied_;
    ForgetfulLearner::apply(step, after);
  }
  std::optional<Broken> broken() const override {
    if (late_ ? begun_ <= 2 : applied_ < 2) return std::nullopt;
    return Broken{.layer = "conv1", .step = 2};
  }

  int applied() const { return applied_; }

 private:
  bool late_;
  int begun_ = 0;
  int applied_ = 0;
};

/// A net whose loss is a number in training and none in the test of images 5 to 8.
class OverflowingLearner : public ForgetfulLearner {
 public:
  OverflowingLearner() : ForgetfulLearner({}) {}
  BatchLoss test_loss(const Labels&, int count) override {
    return {.sum = tested() == 2 ? INFINITY : 1.0, .correct = count};
  }
};

class Watch : public Observer {
 public:
  Watch(std::vector<long>& steps, std::vector<double>& left, std::vector<std::string>& notices)
      : steps_(steps), left_(left), notices_(notices) {}
  void on_step(const StepReport& report) override {
    steps_.push_back(report.step);
    left_.push_back(report.seconds_left);
  }
  void on_notice(const std::string& text) override { notices_.push_back(text); }

 private:
  std::vector<long>& steps_;
  std::vector<double>& left_;
  std::vector<std::string>& notices_;
};

class TheLoop : public testing::Test {
 protected:
  Outcome run(Learner& learner, int epochs, const Progress& from = {}) {
    net_.training.epochs = epochs;
    net_.training.batch = kBatch;
    observers_.push_back(std::make_unique<Watch>(steps_, left_, notices_));
    const Training training{.net = net_,
                            .training = training_,
                            .test = test_,
                            .max_steps = max_steps_,
                            .checkpoint_seconds = 1e9,
                            .stop = stop_};
    return train(training, learner, {std::make_shared<const ModelState>(), from}, observers_,
                 [this](const TrainingState& state) { saved_.push_back(state.progress); });
  }

  Net net_;
  DataSet data_ = small_data();
  Batches training_{data_, Part::training, kBatch, 1, Augmentation{}};
  Batches test_{data_, Part::test, kBatch, 1, Augmentation{}};
  std::atomic<bool> stop_{false};
  Observers observers_;
  long max_steps_ = 0;
  std::vector<long> steps_;
  std::vector<double> left_;  ///< seconds, after each step
  std::vector<std::string> notices_;
  std::vector<Progress> saved_;
};

TEST_F(TheLoop, DoesStepsAgainThatTheLearnerUndid) {
  ForgetfulLearner learner({2, 4});
  const Outcome outcome = run(learner, 2);
  EXPECT_THAT(steps_, ElementsAre(1, 2, 1, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(notices_, ElementsAre("going on after step 0; steps 1 to 2 are done again",
                                    "going on after step 0; steps 1 to 1 are done again"));
  EXPECT_THAT(saved_, ElementsAre(Progress{.epoch = 1}, Progress{.epoch = 2}));
  EXPECT_EQ(outcome.progress, Progress{.epoch = 2});
  EXPECT_EQ(learner.tested(), 2 * kBatches) << "each epoch is tested once";
}

TEST_F(TheLoop, TellsTheTimeThatIsLeftToItsLastStep) {
  for (const long most : {0L, 2L}) {
    ForgetfulLearner learner({});
    max_steps_ = most;
    steps_.clear();
    left_.clear();
    observers_.clear();
    run(learner, 3);
    ASSERT_EQ(steps_.size(), most > 0 ? 2U : 9U);
    EXPECT_GT(left_.front(), 0.0);
    EXPECT_EQ(left_.back(), 0.0) << "with --steps, the steps behind the last are not counted";
  }
}

TEST_F(TheLoop, GoesBackToTheEndOfAnEpochWithoutTestingItAgain) {
  ForgetfulLearner learner({kBatches + 1});
  run(learner, 2);
  EXPECT_THAT(steps_, ElementsAre(1, 2, 3, 4, 4, 5, 6));
  EXPECT_EQ(learner.tested(), 2 * kBatches);
}

TEST_F(TheLoop, SumsLossesOverTheStepsThatCount) {
  ForgetfulLearner learner({2});
  stop_ = false;
  net_.training.learning_rate = 0.1;
  const Outcome outcome = run(learner, 1, {.epoch = 0, .batch = 1, .epoch_loss = 5.0, .epoch_correct = 3});
  EXPECT_THAT(steps_, ElementsAre(2, 3));
  EXPECT_EQ(outcome.progress, Progress{.epoch = 1});
}

TEST_F(TheLoop, TakesACheckpointFromBehindTheLastStepOfAnEpoch) {
  ForgetfulLearner learner({});
  run(learner, 2, {.epoch = 0, .batch = kBatches});
  EXPECT_THAT(steps_, ElementsAre(4, 5, 6));
}

TEST_F(TheLoop, EndsAtTheStepThatBreaksALayer) {
  for (const bool late : {false, true}) {
    BrokenLearner learner(late);
    steps_.clear();
    observers_.clear();
    try {
      run(learner, 2);
      ADD_FAILURE() << "training went on";
    } catch (const Diverged& diverged) {
      EXPECT_STREQ(diverged.what(),
                   "training diverged: after step 2, weights of layer conv1 or their moments are infinite or NaN");
    }
    EXPECT_EQ(steps_.size(), late ? 2U : 1U);
    EXPECT_EQ(learner.applied(), 2) << "no update comes after it";
    EXPECT_THAT(saved_, IsEmpty());
  }
}

TEST_F(TheLoop, EndsAtATestWhoseLossIsNoNumber) {
  OverflowingLearner learner;
  try {
    run(learner, 2);
    FAIL() << "training went on";
  } catch (const Diverged& diverged) {
    EXPECT_THAT(diverged.what(), HasSubstr("the loss over test images 5 to 8 is inf"));
  }
  EXPECT_THAT(steps_, ElementsAre(1, 2, 3));
}

/// Two learners of one process, each with its own number of threads, in turns on one thread and at once on two.
TEST(Learners, LiveInOneProcess) {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 1,
                .height = 6,
                .width = 6,
                .conv = {.filters = 8, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {Activation::relu}}};
  cut.heads = {{.maps = {8, 6, 6},
                .layers = {{.name = "dense1", .spec = Dense{10}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  const Images images = images_of_ones(input_shape(cut.trunk[0], kBatch));
  const std::vector<int> labels{0, 1, 2, 3};
  const auto start = std::make_shared<const ModelState>(ModelState{initial_trunk(cut, 3), initial_heads(cut, 3)});
  struct Whole {
    Whole(const Cut& cut, int threads)
        : device(make_device("cpu", {.threads = threads})),
          trunk(cut.trunk, input_shape(cut.trunk[0], kBatch), *device),
          learner(trunk, cut, kBatch, threads) {}
    std::unique_ptr<Device> device;
    LocalTrunk trunk;
    NetLearner learner;
  };
  const auto step = [&](Learner& learner) {
    train_step(learner, images, labels, {.training = true, .seed = 1},
               [](double) { return UpdateStep{.learning_rate = 0.1F}; });
  };
  const auto weights_of = [](Learner& learner) {
    const auto state = learner.state();
    const auto values = state->trunk[0].weights().span();
    return std::vector<float>(values.begin(), values.end());
  };
  Whole one(cut, 1);
  Whole two(cut, 2);
  Whole alone(cut, 1);
  for (Whole* each : {&one, &two, &alone}) each->learner.load({start});
  for (int i = 0; i < 3; ++i) step(alone.learner);
  for (int i = 0; i < 2; ++i) {
    step(one.learner);
    step(two.learner);
  }
  std::thread other([&] { step(two.learner); });
  step(one.learner);
  other.join();
  EXPECT_EQ(weights_of(one.learner), weights_of(alone.learner)) << "the same bits as without another learner beside it";
  const std::vector<float> weights = weights_of(two.learner);
  const std::vector<float> expected = weights_of(alone.learner);
  for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(weights[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace convoy
