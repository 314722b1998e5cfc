// Tests the decision whether a run uses its slaves or trains on the master alone.

#include <gtest/gtest.h>

#include "master/cluster/planning.hpp"

namespace convoy {
namespace {

/// A plan whose step was predicted to take `with_slaves` seconds, where the master alone was timed at `alone` seconds.
Planned planned(double with_slaves, double alone) {
  Planned made;
  made.calibration.seconds_alone = alone;
  made.choice = Choice{.plan = {}, .predicted = {.seconds = with_slaves, .nodes = {}}, .alternatives = {}};
  return made;
}

TEST(BetterAlone, UnlessSlavesMakeAStepShorterByATenth) {
  EXPECT_TRUE(planned(2.0, 1.0).better_alone()) << "slaves make the step longer";
  EXPECT_TRUE(planned(1.0, 1.0).better_alone()) << "slaves change nothing";
  EXPECT_TRUE(planned(1.0, 1.09).better_alone()) << "the gain is within the error of predictions";
  EXPECT_FALSE(planned(1.0, 1.11).better_alone());
  EXPECT_FALSE(planned(1.0, 4.0).better_alone());
}

TEST(BetterAlone, NeverWithoutATimeOfTheMasterAlone) {
  EXPECT_FALSE(planned(1.0, 0.0).better_alone()) << "its memory is too small, or the user asked for an exchange";
}

TEST(BetterAlone, NeverWhereThePlanIsFixed) {
  Planned fixed;  // without a choice among plans
  fixed.calibration.seconds_alone = 1.0;
  EXPECT_FALSE(fixed.better_alone());
}

}  // namespace
}  // namespace convoy
