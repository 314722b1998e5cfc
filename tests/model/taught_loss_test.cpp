// The loss by which a net learns from a teacher: its gradient in double precision, and its values against the formulas
// of Hinton et al. (2015).

#include "model/taught_loss.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "core/random.hpp"
#include "model/head.hpp"
#include "tests/support/central_difference.hpp"

namespace convoy {
namespace {

constexpr int kClasses = 4;
constexpr int kBatch = 3;
constexpr int kCounted = 2;  ///< the last sample is padding

struct TaughtCase {
  std::string name;
  double temperature = 1.0;
  double mix = 1.0;
  float smoothing = 0.0F;
  bool zeros = false;  ///< whether the teacher excludes a class
};

void PrintTo(const TaughtCase& c, std::ostream* out) { *out << c.name; }

/// Labels with a teacher's probabilities, which are random.
Labels taught_labels(const TaughtCase& c) {
  Labels labels{2, 0, 3};
  labels.temperature = c.temperature;
  labels.mix = c.mix;
  labels.soft = Tensor(Shape{kBatch, kClasses});
  Random random(5, 1);
  for (int n = 0; n < kBatch; ++n) {
    float sum = 0.0F;
    for (float& each : labels.soft.sample(n)) sum += each = random.uniform(0.1F, 1.0F);
    for (float& each : labels.soft.sample(n)) each /= sum;
    if (!c.zeros) continue;
    labels.soft.at(n, 0) += labels.soft.at(n, 1);
    labels.soft.at(n, 1) = 0.0F;
  }
  return labels;
}

class TaughtLoss : public testing::TestWithParam<TaughtCase> {
 protected:
  static CutHead head_of(float smoothing) {
    return {.maps = {5, 1, 1},
            .layers = {{.name = "dense1", .spec = Dense{kClasses}},
                       {.name = "loss", .spec = SoftmaxCrossEntropy{.label_smoothing = smoothing, .weight = 0.75F}}}};
  }

  TaughtLoss() : head_(head_of(GetParam().smoothing), 1, kBatch), maps_(Shape{kBatch, 5, 1, 1}) {
    Random random(7, 1);
    for (double& value : maps_.span()) value = static_cast<double>(random.uniform(-2.0F, 2.0F));
    for (double& value : weights()) value = static_cast<double>(random.uniform(-1.0F, 1.0F));
  }
  std::span<double> weights() { return head_.edit(0).weights.value.span(); }
  double mean_loss() {
    head_.forward(maps_, {.training = true});
    return head_.loss(labels_, kCounted).sum / kCounted;
  }
  double slope(double& value) {
    // The loss's own weight is not part of loss().
    return 0.75 * central_difference(value, [this] { return mean_loss(); });
  }

  Labels labels_ = taught_labels(GetParam());
  Head<double> head_;
  BasicTensor<double> maps_;
};

TEST_P(TaughtLoss, HasTheGradientOfCentralDifferences) {
  mean_loss();
  const BasicTensor<double> by_maps = head_.backward();
  head_.backward_weights();
  const BasicTensor<double> by_weights = head_.weight_gradient(0);
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const double expected = slope(maps_.data()[i]);
    EXPECT_NEAR(by_maps.data()[i], expected, 1e-7 + 1e-6 * std::abs(expected)) << "map " << i;
  }
  for (std::size_t i = 0; i < weights().size(); ++i) {
    const double expected = slope(weights()[i]);
    EXPECT_NEAR(by_weights.data()[i], expected, 1e-7 + 1e-6 * std::abs(expected)) << "weight " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Mixes, TaughtLoss,
                         testing::Values(TaughtCase{"TeacherAlone", 1.0, 1.0}, TaughtCase{"Hot", 5.0, 1.0},
                                         TaughtCase{"Cold", 0.5, 1.0}, TaughtCase{"Mixed", 4.0, 0.7},
                                         TaughtCase{"LabelAlone", 4.0, 0.0}, TaughtCase{"Smoothed", 2.0, 0.5, 0.2F},
                                         TaughtCase{"WithoutAClass", 3.0, 0.6, 0.0F, true}),
                         [](const auto& info) { return info.param.name; });

/// The loss of one sample, and its gradient, whose label's part is `hard` and `hard_gradient`.
struct Taught {
  double loss = 0.0;
  std::vector<double> gradient;
};
Taught taught(const std::vector<double>& logits, const std::vector<float>& teacher, double temperature, double mix,
              double hard = 0.0, std::vector<double> hard_gradient = {}) {
  Labels labels;
  labels.temperature = temperature;
  labels.mix = mix;
  hard_gradient.resize(logits.size());
  const double loss = taught_loss<double>(logits, teacher, labels, hard, hard_gradient);
  return {loss, hard_gradient};
}

TEST(TaughtLossValues, AreThoseOfTheFormula) {
  // softmax([2, 0] / 2) = [e / (e + 1), 1 / (e + 1)]
  const double p = std::exp(1.0) / (std::exp(1.0) + 1.0);
  const double divergence = 0.25 * std::log(0.25 / p) + 0.75 * std::log(0.75 / (1.0 - p));
  const Taught found = taught({2.0, 0.0}, {0.25F, 0.75F}, 2.0, 0.5, 3.0, {1.0, -1.0});
  EXPECT_NEAR(found.loss, 0.5 * 4.0 * divergence + 0.5 * 3.0, 1e-12);
  EXPECT_NEAR(found.gradient[0], 0.5 * 2.0 * (p - 0.25) + 0.5, 1e-12);
  EXPECT_NEAR(found.gradient[1], 0.5 * 2.0 * (0.25 - p) - 0.5, 1e-12);
}

TEST(TaughtLossValues, AreNothingForAStudentThatKnowsAsMuch) {
  const Taught found = taught({std::log(0.25), std::log(0.75)}, {0.25F, 0.75F}, 1.0, 1.0);
  EXPECT_NEAR(found.loss, 0.0, 1e-12);
  for (const double each : found.gradient) EXPECT_NEAR(each, 0.0, 1e-12);
}

/// At a high temperature the loss becomes half the squared distance of the logits, over the number of classes, where
/// both have a mean of zero (equation 4 of the paper).
TEST(TaughtLossValues, BecomeADistanceOfLogitsAtHighTemperatures) {
  const std::vector<double> student{1.0, -0.5, -0.5};
  const std::vector<double> master{-1.0, 0.25, 0.75};
  constexpr double kTemperature = 1000.0;
  std::vector<float> soft;
  double sum = 0.0;
  for (const double logit : master) sum += std::exp(logit / kTemperature);
  for (const double logit : master) soft.push_back(static_cast<float>(std::exp(logit / kTemperature) / sum));
  const Taught found = taught(student, soft, kTemperature, 1.0);
  for (std::size_t c = 0; c < student.size(); ++c) {
    EXPECT_NEAR(found.gradient[c], (student[c] - master[c]) / 3.0, 2e-3) << c;
  }
}

TEST(TaughtLossValues, StayFiniteWhereExponentialsWouldOverflow) {
  const Taught found = taught({4000.0, -4000.0}, {0.0F, 1.0F}, 1.0, 1.0);
  EXPECT_NEAR(found.loss, 8000.0, 1e-9);
  EXPECT_EQ(found.gradient, (std::vector<double>{1.0, -1.0}));
}

TEST(LabelParts, HaveTheClassesAndProbabilitiesOfTheirImages) {
  const Labels all = taught_labels({"", 4.0, 0.7});
  const Labels part = all.part(1, 2);
  EXPECT_EQ(part.classes, (std::vector<int>{0, 3}));
  EXPECT_EQ(part.temperature, 4.0);
  EXPECT_EQ(part.mix, 0.7);
  ASSERT_EQ(part.soft.shape(), (Shape{2, kClasses}));
  for (int n = 0; n < 2; ++n) {
    EXPECT_TRUE(std::ranges::equal(part.soft.sample(n), all.soft.sample(n + 1))) << n;
  }
  EXPECT_FALSE(Labels({1, 2, 3}).part(0, 2).taught());
}

}  // namespace
}  // namespace convoy
