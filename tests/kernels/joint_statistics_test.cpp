#include "kernels/joint_statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "core/random.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;

/// The mean and the variance of some values.
std::pair<double, double> moments_of(std::span<const double> values) {
  double mean = 0.0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double variance = 0.0;
  for (const double value : values) variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
  return {mean, variance};
}

RowStatistics row_of(std::span<const double> values) {
  const auto [mean, variance] = moments_of(values);
  return {static_cast<int>(values.size()), {static_cast<float>(mean), static_cast<float>(variance)}};
}

/// Rows of 1, 7 and 24 samples, whose means differ as much as the samples of a row.
TEST(JointStatistics, OfRowsAreThoseOfAllSamples) {
  Random random(1, 2);
  std::vector<double> all;
  for (int i = 0; i < 32; ++i) all.push_back(static_cast<double>(random.uniform(-1.0F, 1.0F)) + (i < 8 ? 3.0 : 5.0));
  const std::span<const double> values(all);
  const std::vector<RowStatistics> rows{row_of(values.first(1)), row_of(values.subspan(1, 7)), row_of(values.last(24))};
  const auto [mean, variance] = moments_of(values);
  const std::vector<double> joint = join_moments(rows);
  EXPECT_NEAR(joint.at(0), mean, 4e-7);
  EXPECT_NEAR(joint.at(1), variance, 4e-7);
}

TEST(JointStatistics, OfOneRowAreTheRowsOwn) {
  const std::vector<RowStatistics> rows{{5, {0.1F, -7.0F, 0.3F, 2.0F}}};
  const std::vector<double> own(rows[0].values.begin(), rows[0].values.end());
  EXPECT_EQ(join_moments(rows), own);
  EXPECT_EQ(join_slopes(rows), own);
}

/// In single precision the variance, 1e-12 of the squared mean, would be lost.
TEST(JointStatistics, KeepASmallVarianceAroundALargeMean) {
  const std::vector<RowStatistics> rows{{3, {1e6F, 1.0F}}, {1, {1e6F, 5.0F}}};
  EXPECT_THAT(join_moments(rows), ElementsAre(1e6, 2.0));
}

TEST(JointStatistics, AddTheSlopesOfAllRows) {
  const std::vector<RowStatistics> rows{{3, {1.0F, 2.0F, 3.0F, 4.0F}}, {9, {10.0F, 20.0F, 30.0F, 40.0F}}};
  EXPECT_THAT(join_slopes(rows), ElementsAre(11.0, 22.0, 33.0, 44.0));
}

TEST(JointStatistics, OfAChannelWithNanAreNan) {
  const std::vector<RowStatistics> rows{{1, {1.0F, 2.0F, 1.0F, 1.0F}}, {1, {NAN, 3.0F, NAN, 1.0F}}};
  for (const auto& joint : {join_moments(rows), join_slopes(rows)}) {
    EXPECT_TRUE(std::isnan(joint[0]) && std::isnan(joint[2]));
    EXPECT_TRUE(std::isfinite(joint[1]) && std::isfinite(joint[3]));
  }
}

TEST(JointStatistics, OfNothingBreakAnInvariant) {
  EXPECT_THROW(join_moments({}), BrokenInvariant);
  EXPECT_THROW(join_slopes(std::vector<RowStatistics>{{1, {1.0F, 1.0F}}, {1, {1.0F}}}), BrokenInvariant);
}

TEST(JointStatistics, AreCutAndPutBackByChannel) {
  std::vector<float> values{1, 2, 3, 11, 12, 13};
  const std::vector<float> some = statistics_of<float>(values, {1, 2});
  EXPECT_THAT(some, ElementsAre(2, 3, 12, 13));
  put_statistics<float>(some, {0, 2}, values);
  EXPECT_THAT(values, ElementsAre(2, 3, 3, 12, 13, 13));
}

/// The running variance averages the unbiased variance.
TEST(JointStatistics, UpdateRunningAverages) {
  const std::vector<double> joint{4.0, 6.0};
  const std::vector<float> running{1.0F, 2.0F};
  EXPECT_THAT(next_running<float>({.momentum = 0.5F}, joint, 4.0, running), ElementsAre(2.5F, 5.0F));
}

}  // namespace
}  // namespace convoy
