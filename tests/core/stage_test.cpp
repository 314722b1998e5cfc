// Tests what stages with dilated kernels, norms of a sample and resized maps read and make, and that wrong ones are
// refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

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

Stage dilated_pooling(const Pooling& pool) {
  Stage stage = stage_without_weights("pool", StageKind::channels, 3, 6, 7);
  stage.after = {pool};
  return stage;
}

TEST(DilatedPoolings, HaveWindowsOfTheirReach) {
  const Pooling pool{.kernel_h = 2,
                     .kernel_w = 3,
                     .stride_h = 1,
                     .stride_w = 2,
                     .pad = {4, 0, 1, 1},
                     .dilation_h = 5,
                     .dilation_w = 2};
  EXPECT_TRUE(pool.dilated());
  EXPECT_NO_THROW(validate(dilated_pooling(pool)));
  EXPECT_EQ(output_shape(dilated_pooling(pool), 2, 3), (Shape{2, 3, 6, 2}));
}

TEST(DilatedPoolings, AreRefusedWhereAWindowHasNoElement) {
  // The second row of the first window would be the row with the number 7 - 1 = 6 of six.
  Pooling pool{.kernel_h = 2, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .pad = {1, 0, 3, 0}, .dilation_h = 7};
  EXPECT_TRUE(has_empty_window(pool, 6, 7));
  EXPECT_THROW(validate(dilated_pooling(pool)), Error);
  EXPECT_FALSE(has_empty_window(pool, 7, 7));
  pool.pad.top = 2;
  pool.stride_h = 2;  // the first window has row 5, and the second begins with row 0
  EXPECT_FALSE(has_empty_window(pool, 6, 7));
  EXPECT_NO_THROW(validate(dilated_pooling(pool)));
}

TEST(DilatedPoolings, AreMaxima) {
  for (const PoolKind kind : {PoolKind::average, PoolKind::average_with_padding}) {
    EXPECT_THROW(validate(dilated_pooling({.kind = kind, .dilation_h = 2})), Error);
  }
  for (const int dilation : {0, -1, 1 << 20, 2147483647}) {
    EXPECT_THROW(validate(dilated_pooling({.dilation_w = dilation})), Error) << dilation;
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

using Mode = Resizing::Mode;

TEST(Resizings, MakeMapsOfOtherExtents) {
  Stage stage = stage_without_weights("up", StageKind::resize, 6, 4, 5);
  stage.resizing = {Mode::nearest, {12, 1.0 / 3, 0.0}, {10, 0.5, 0.0}};
  stage.after = {Pooling{}};
  EXPECT_NO_THROW(validate(stage));
  EXPECT_EQ(channels_for(stage, {2, 3}), (FilterRange{2, 3}));
  EXPECT_EQ(conv_shape(stage, 2, 3), (Shape{2, 3, 12, 10}));
  EXPECT_EQ(output_shape(stage, 2, 3), (Shape{2, 3, 6, 5}));
  for (const int extent : {0, -1, 1 << 21, 1 << 30}) {
    stage.resizing.columns.extent = extent;
    EXPECT_THROW(validate(stage), Error) << extent;
  }
}

TEST(Resizings, AreRefusedWithPlacesThatAreNone) {
  const auto refused = [](Mode mode, const Resizing::Axis& axis) {
    Stage stage = stage_without_weights("up", StageKind::resize, 6, 4, 5);
    stage.resizing = {mode, {4, 1.0, 0.0}, axis};
    try {
      validate(stage);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const double number : {kNaN, 1e300, -1.0}) {
    EXPECT_TRUE(refused(Mode::linear, {4, number, 0.0})) << number;
    EXPECT_EQ(refused(Mode::nearest, {4, 1.0, number}), number != -1.0) << number;
  }
  // Five columns need nine to stand two apart.
  EXPECT_FALSE(refused(Mode::spread, {9, 2.0, 0.0}));
  EXPECT_TRUE(refused(Mode::spread, {8, 2.0, 0.0}));
  EXPECT_TRUE(refused(Mode::spread, {9, 2.0, 1.0}));
  EXPECT_TRUE(refused(Mode::spread, {20, 2.5, 0.0}));
  EXPECT_TRUE(refused(Mode::spread, {20, 0.0, 0.0}));
  EXPECT_TRUE(refused(Mode::spread, {20, 2.0, -1.0}));
}

std::vector<double> places(Mode mode, const Resizing::Axis& axis, int extent) {
  std::vector<double> found;
  for (const Between& each : elements_of(mode, axis, extent)) {
    found.push_back(each.first + (each.second - each.first) * each.weight);
  }
  return found;
}

/// The first element lies a quarter before the first centre, and the last one behind the last.
TEST(Resizings, PlaceElementsBetweenCentres) {
  EXPECT_EQ(places(Mode::linear, {6, 0.5, -0.25}, 3), (std::vector<double>{0.0, 0.25, 0.75, 1.25, 1.75, 2.0}));
}

TEST(Resizings, PlaceElementsBetweenCorners) {
  EXPECT_EQ(places(Mode::linear, {5, 0.5, 0.0}, 3), (std::vector<double>{0.0, 0.5, 1.0, 1.5, 2.0}));
}

TEST(Resizings, TakeTheElementBelowAPlace) {
  EXPECT_EQ(places(Mode::nearest, {4, 1.75, 0.0}, 7), (std::vector<double>{0, 1, 3, 5}));
  EXPECT_EQ(places(Mode::nearest, {4, 1.75, 1.25}, 7), (std::vector<double>{1, 3, 4, 6}));
  EXPECT_EQ(places(Mode::nearest, {5, 2.0, -1.0}, 7), (std::vector<double>{0, 1, 3, 5, 6}));
}

/// Multiples of a third are whole where they should be, from whatever start.
TEST(Resizings, TakeWholePlacesForWhole) {
  for (int extent = 1; extent < 60; ++extent) {
    const std::vector<double> found = places(Mode::nearest, {3 * extent, 1.0 / 3, 1.0 / 3}, extent);
    for (int i = 0; i < 3 * extent; ++i) EXPECT_EQ(found[i], std::min((i + 1) / 3, extent - 1)) << extent;
  }
}

TEST(Resizings, SpreadElements) {
  EXPECT_EQ(places(Mode::spread, {8, 3.0, 1.0}, 2), (std::vector<double>{-1, 0, -1, -1, 1, -1, -1, -1}));
}

}  // namespace
}  // namespace convoy
