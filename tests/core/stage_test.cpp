// Tests what stages with dilated kernels, norms of a sample and larger maps read and make, and that wrong ones are refused.

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/stage.hpp"

namespace convoy {
namespace {

Stage dilated_stage() {
  return {.name = "conv3",
          .channels = 3,
          .height = 11,
          .width = 8,
          .conv = {.filters = 5,
                   .kernel_h = 3,
                   .kernel_w = 2,
                   .stride_h = 2,
                   .pad = {1, 0, 1, 1},
                   .dilation_h = 3,
                   .dilation_w = 4},
          .after = {}};
}

TEST(DilatedStages, HaveWindowsOfTheirReach) {
  Stage stage = dilated_stage();
  EXPECT_NO_THROW(validate(stage));
  EXPECT_EQ(stage.conv.reach_h(), 7);
  EXPECT_EQ(stage.conv.reach_w(), 5);
  EXPECT_EQ(conv_shape(stage, 4, 5), (Shape{4, 5, 4, 5}));
  EXPECT_EQ(weight_shape(stage, 2), (Shape{2, 3, 3, 2}));
  EXPECT_TRUE(stage.conv.dilated());
  stage.conv.pad.top = 6;  // smaller than the dilated kernel
  EXPECT_NO_THROW(validate(stage));
  stage.conv.pad.top = 7;
  EXPECT_THROW(validate(stage), Error);
}

TEST(DilatedStages, AreRefusedWhereDilationIsNone) {
  for (const int dilation : {0, -2, 1 << 20, 1 << 30, 2147483647}) {
    Stage stage = dilated_stage();
    stage.conv.dilation_w = dilation;
    EXPECT_THROW(validate(stage), Error) << dilation;
  }
}

Stage normalised_stage(int channels, int groups) {
  Stage stage = stage_without_weights("norm", StageKind::group_norm, channels, 4, 5);
  stage.group_norm.groups = groups;
  return stage;
}

TEST(GroupNorms, ReadWholeGroups) {
  const Stage stage = normalised_stage(12, 3);
  EXPECT_NO_THROW(validate(stage));
  EXPECT_EQ(channels_for(stage, {0, 12}), (FilterRange{0, 12}));
  EXPECT_EQ(channels_for(stage, {4, 4}), (FilterRange{4, 4}));
  EXPECT_EQ(channels_for(stage, {3, 2}), (FilterRange{0, 8}));
  EXPECT_EQ(channels_for(stage, {11, 1}), (FilterRange{8, 4}));
  EXPECT_EQ(output_shape(stage, 2, 5), (Shape{2, 5, 4, 5}));
}

TEST(GroupNorms, AreRefusedWithUnequalGroups) {
  for (const int groups : {0, -1, 5, 24}) EXPECT_THROW(validate(normalised_stage(12, groups)), Error) << groups;
  Stage stage = normalised_stage(12, 3);
  stage.group_norm.epsilon = -1e-5F;
  EXPECT_THROW(validate(stage), Error);
}

TEST(Upsamplings, MakeMapsLarger) {
  Stage stage = stage_without_weights("up", StageKind::upsample, 6, 4, 5);
  stage.upsampling = {.rows = 3, .columns = 2};
  stage.after = {Pooling{}};
  EXPECT_NO_THROW(validate(stage));
  EXPECT_EQ(channels_for(stage, {2, 3}), (FilterRange{2, 3}));
  EXPECT_EQ(conv_shape(stage, 2, 3), (Shape{2, 3, 12, 10}));
  EXPECT_EQ(output_shape(stage, 2, 3), (Shape{2, 3, 6, 5}));
  for (const int factor : {0, -1, 1 << 20, 1 << 30}) {
    stage.upsampling.columns = factor;
    EXPECT_THROW(validate(stage), Error) << factor;
  }
}

/// The first element lies a quarter before the first centre, and the last one behind the last.
TEST(Upsamplings, PlaceElementsBetweenCentres) {
  std::vector<double> places;
  for (int at = 0; at < 6; ++at) {
    const Between found = bilinear_at(at, 2, 3);
    places.push_back(found.first + (found.second - found.first) * found.weight);
  }
  EXPECT_EQ(places, (std::vector<double>{0.0, 0.25, 0.75, 1.25, 1.75, 2.0}));
}

}  // namespace
}  // namespace convoy
