// When replicas that train by themselves exchange their models, and what waits for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/train/local_steps.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;

/// A run of two epochs of eleven steps, with an exchange after every fourth step of an epoch and at its end.
class RunsOfLocalSteps : public testing::Test {
 protected:
  RunsOfLocalSteps() {
    net_.training = {.batch = kBatch, .epochs = 2, .learning_rate = 0.05, .momentum = 0.9};
    data_ = {.name = "random", .classes = kClasses};
    Random random(kSeed, 1);
    for (ImageSet* images : {&data_.training, &data_.test}) {
      images->shape = {2, 9, 7};
      for (int i = 0; i < 2 * kBatch * 11; ++i)
        images->labels.push_back(static_cast<std::uint8_t>(random.below(kClasses)));
      for (std::size_t i = 0; i < images->labels.size() * 126; ++i)
        images->pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
    }
  }
  /// Trains on from the last checkpoint, if there is one.
  Outcome train_some_steps(long max_steps) {
    const Cut cut = net_of(kPlainNets[0]);
    const Batches training(data_, Part::training, 2 * kBatch, kSeed, Augmentation{});
    const Batches test(data_, Part::test, 2 * kBatch, kSeed, Augmentation{});
    LocalSteps local(cut, 2, period_);
    const std::atomic<bool> stop{false};
    const Training settings{.net = net_,
                            .training = training,
                            .test = test,
                            .seed = kSeed,
                            .max_steps = max_steps,
                            .checkpoint_seconds = 0.0,
                            .stop = stop};
    return train(settings, *local.learner, saved_.empty() ? initial(cut) : saved_.back(), {},
                 [this](const TrainingState& state) { saved_.push_back(state); });
  }
  std::vector<int> batches_saved() const {
    std::vector<int> batches;
    for (const TrainingState& each : saved_) batches.push_back(each.progress.batch);
    return batches;
  }

  Net net_;
  ExchangePeriod period_{.steps = 4};
  DataSet data_;
  std::vector<TrainingState> saved_;
};

TEST(ExchangePeriods, GrowAsTheInverseSquareOfTheRate) {
  const ExchangePeriod period{.steps = 4, .most = 64, .full_rate = 0.1, .warm_up = 1.0};
  EXPECT_EQ(period.at(0, 0.01), 4) << "in the warm-up";
  EXPECT_EQ(period.at(1, 0.1), 4);
  EXPECT_EQ(period.at(1, 0.2), 4);
  EXPECT_EQ(period.at(5, 0.051), 15);
  EXPECT_EQ(period.at(5, 0.026), 59);
  EXPECT_EQ(period.at(9, 0.001), 64);
  EXPECT_EQ(period.at(9, 0.0), 64);
  EXPECT_EQ((ExchangePeriod{.steps = 4, .full_rate = 0.1}.at(9, 0.0)), 4);
}

/// The rate falls along a cosine: the number of steps is 2 in the first six, 3 in the next ones, and 6 in the second
/// epoch, whose last five steps its end cuts off.
TEST_F(RunsOfLocalSteps, ExchangeLessOftenAtASmallRate) {
  net_.training.schedule.kind = Schedule::Kind::cosine;
  period_ = {.steps = 2, .most = 6, .full_rate = net_.training.learning_rate};
  EXPECT_EQ(train_some_steps(0).steps, 22);
  EXPECT_THAT(batches_saved(), ElementsAre(2, 4, 6, 9, 0, 6, 0));
  const std::shared_ptr<const ModelState> straight = saved_.back().model;
  saved_.clear();
  EXPECT_EQ(train_some_steps(8).steps, 9);
  EXPECT_EQ(train_some_steps(0).steps, 22);
  expect_equal(*saved_.back().model, *straight);
}

/// Moments are exchanged with every third exchange and at the end of an epoch, where there is a whole model.
TEST_F(RunsOfLocalSteps, SaveAndEndWhereMomentsAreExchanged) {
  period_ = {.steps = 2, .moments = 5};
  EXPECT_EQ(train_some_steps(0).steps, 22);
  EXPECT_THAT(batches_saved(), ElementsAre(6, 0, 6, 0));
  const std::shared_ptr<const ModelState> straight = saved_.back().model;
  saved_.clear();
  EXPECT_EQ(train_some_steps(2).steps, 6);
  EXPECT_EQ(train_some_steps(7).steps, 11);
  EXPECT_EQ(train_some_steps(0).steps, 22);
  expect_equal(*saved_.back().model, *straight);
}

/// Checkpoints are due all the time, and wait for the next exchange; so does the end.
TEST_F(RunsOfLocalSteps, SaveAndEndWhereThereIsAModel) {
  EXPECT_EQ(train_some_steps(0).steps, 22);
  EXPECT_THAT(batches_saved(), ElementsAre(4, 8, 0, 4, 8, 0));
  const std::shared_ptr<const ModelState> straight = saved_.back().model;
  saved_.clear();
  EXPECT_EQ(train_some_steps(5).steps, 8);
  EXPECT_EQ(train_some_steps(9).steps, 11);
  EXPECT_EQ(train_some_steps(0).steps, 22);
  expect_equal(*saved_.back().model, *straight);
}

}  // namespace
}  // namespace convoy
