// Convolutions as words of a command line.
#include "study/stage_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace convoy::study {
namespace {

using testing::HasSubstr;

TEST(StageText, GivesBackItsStages) {
  const std::string text = "3x32x32:50x5x5,64x56x56:128x3x3:s2:p1,8x9x10:12x1x3:s1x2,32x28x28:32x3x3:p0x1x1x0:g32";
  const std::vector<Stage> stages = stages_from(text);
  ASSERT_EQ(stages.size(), 4U);
  EXPECT_EQ(text_of(stages), text);
  EXPECT_EQ(filters_of(stages), "50:128:12:32");
  const Stage& second = stages[1];
  EXPECT_EQ(second.channels, 64);
  EXPECT_EQ(second.height, 56);
  EXPECT_EQ(second.conv.stride_w, 2);
  EXPECT_EQ(second.conv.pad, (Padding{1, 1, 1, 1}));
  EXPECT_EQ(stages[3].conv.groups, 32);
  EXPECT_EQ(stages[3].conv.pad, (Padding{0, 1, 1, 0}));
}

TEST(StageText, LeavesOtherKindsOut) {
  std::vector<Stage> stages = stages_from("3x32x32:50x5x5");
  stages.push_back(stage_without_weights("norm", StageKind::response_norm, 50, 14, 14));
  EXPECT_EQ(text_of(stages), "3x32x32:50x5x5");
  EXPECT_EQ(filters_of(stages), "50");
}

class BadStageText : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadStageText, IsRefusedByName) {
  try {
    stages_from(GetParam().first);
    FAIL() << GetParam().first;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().second));
  }
}

INSTANTIATE_TEST_SUITE_P(
    StageText, BadStageText,
    ::testing::Values(
        std::pair{"", "'' is no convolution"}, std::pair{"3x32x32", "is no convolution"},
        std::pair{"3x32x32:50x5x5,", "'' is no convolution"}, std::pair{"3x32:50x5x5", "is no convolution"},
        std::pair{"3x32x32:50x5", "is no convolution"}, std::pair{"3x32x32:50x5x5:q1", "is no convolution"},
        std::pair{"3x32x32:50x5x5:", "is no convolution"}, std::pair{"3x32x32:50x5x5:p1x2", "is no convolution"},
        std::pair{"3x-32x32:50x5x5", "is no convolution"}, std::pair{"3x32x32:5e1x5x5", "is no convolution"},
        std::pair{"3x32x32:50x5x99999999999", "is no convolution"}, std::pair{"0x32x32:50x5x5", "must lie in 1"},
        std::pair{"3x32x32:50x5x5:s0", "at least 1"}, std::pair{"3x32x32:50x33x33", "does not fit"},
        std::pair{"3x32x32:50x5x5:g7", "equal groups"}, std::pair{"1024x1024x1024:5x5x5", "is too large"},
        std::pair{"3x\x1b[31m:5x5x5", "'3x\\x1b"}));

}  // namespace
}  // namespace convoy::study
