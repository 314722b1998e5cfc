// The scores of an ensemble from the outputs of its members.

#include "model/ensemble_scores.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace convoy {
namespace {

/// Outputs whose softmax are these probabilities.
std::vector<float> outputs_for(const std::vector<double>& probabilities) {
  std::vector<float> outputs;
  for (const double each : probabilities) outputs.push_back(static_cast<float>(std::log(each) + 3.0));
  return outputs;
}

std::vector<float> scores_of(Combination how, const std::vector<std::vector<float>>& members) {
  EnsembleScores scores(how, static_cast<int>(members.size()), 2, static_cast<int>(members[0].size()));
  for (const auto& outputs : members) scores.add(1, outputs);
  for (const float each : scores.of(0)) EXPECT_EQ(each, 0.0F);  // the other image has none
  const auto found = scores.of(1);
  return {found.begin(), found.end()};
}

void expect_scores(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t c = 0; c < found.size(); ++c) EXPECT_NEAR(found[c], expected[c], 1e-6) << c;
}

TEST(EnsembleScoresTest, AverageProbabilities) {
  expect_scores(scores_of(Combination::probabilities, {outputs_for({0.7, 0.2, 0.1}), outputs_for({0.1, 0.6, 0.3})}),
                {0.4, 0.4, 0.2});
}

TEST(EnsembleScoresTest, AverageLogits) {
  expect_scores(scores_of(Combination::logits, {{1.0F, 5.0F}, {2.0F, -7.0F}, {6.0F, 2.0F}}), {3.0, 0.0});
}

/// Two members against one win, however sure the one is.
TEST(EnsembleScoresTest, LetTheMajorityWin) {
  const auto found = scores_of(Combination::votes, {outputs_for({0.51, 0.48, 0.01}), outputs_for({0.51, 0.48, 0.01}),
                                                    outputs_for({0.001, 0.998, 0.001})});
  expect_scores(found, {(2 + 1.021 / 3) / 4, (1 + 1.958 / 3) / 4, (0.021 / 3) / 4});
}

TEST(EnsembleScoresTest, BreakTiesByTheMeanOfProbabilities) {
  const auto found = scores_of(Combination::votes, {outputs_for({0.5, 0.45, 0.05}), outputs_for({0.2, 0.75, 0.05})});
  EXPECT_GT(found[1], found[0]);
  EXPECT_GT(found[0], found[2]);
}

TEST(EnsembleScoresTest, SoftmaxTakesATemperatureAndLargeOutputs) {
  expect_scores(softmax_of(std::vector<float>{2.0F, 0.0F}, 2.0),
                {std::exp(1.0) / (std::exp(1.0) + 1.0), 1 / (std::exp(1.0) + 1.0)});
  expect_scores(softmax_of(std::vector<float>{3e38F, -3e38F}), {1.0, 0.0});
}

TEST(EnsembleScoresTest, HaveTheCrossEntropyOfTheirSoftmax) {
  EXPECT_NEAR(loss_of_scores(Combination::probabilities, std::vector<float>{0.25F, 0.75F}, 0), std::log(4.0), 1e-6);
  EXPECT_NEAR(loss_of_scores(Combination::logits, outputs_for({0.25, 0.75}), 0), std::log(4.0), 1e-6);
  EXPECT_TRUE(std::isfinite(loss_of_scores(Combination::probabilities, std::vector<float>{0.0F, 1.0F}, 0)));
}

}  // namespace
}  // namespace convoy
