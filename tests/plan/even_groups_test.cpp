// Groups of members that are about equally fast.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/even_groups.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;

TEST(EvenGroups, AreAboutEquallyFast) {
  EXPECT_THAT(even_groups({4, 1, 3, 2}, 2), ElementsAre(ElementsAre(0U, 1U), ElementsAre(2U, 3U)));
  EXPECT_THAT(even_groups({1, 1, 1, 6, 3}, 2), ElementsAre(ElementsAre(3U), ElementsAre(0U, 1U, 2U, 4U)));
}

TEST(EvenGroups, OfEqualMembersAreOfOneSize) {
  EXPECT_THAT(even_groups({2, 2, 2, 2, 2, 2}, 3),
              ElementsAre(ElementsAre(0U, 3U), ElementsAre(1U, 4U), ElementsAre(2U, 5U)));
}

TEST(EvenGroups, AreNeverEmptyWhereThereAreAsManyMembers) {
  EXPECT_THAT(even_groups({0, 0, 5}, 3), ElementsAre(ElementsAre(2U), ElementsAre(0U), ElementsAre(1U)));
  EXPECT_THAT(even_groups({100, 1, 1}, 3), ElementsAre(ElementsAre(0U), ElementsAre(1U), ElementsAre(2U)));
}

TEST(EvenGroups, CountAMemberThatCannotHoldTheNetAsNoSpeed) {
  const std::vector<Stage> trunk{{.name = "a", .conv = {.filters = 8}}, {.name = "b", .conv = {.filters = 4}}};
  const Timing a{.filters = 8, .forward = 0.25, .backward_input = 0.25};
  const Timing b{.filters = 4, .forward = 0.5};
  EXPECT_DOUBLE_EQ(speed_of({.stages = {{a}, {b}}}, trunk), 1.0);
  EXPECT_EQ(speed_of({.stages = {{a}, {}}}, trunk), 0.0);
}

}  // namespace
}  // namespace convoy
