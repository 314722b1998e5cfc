// Tests the comparison of a run's values with those in a checkpoint, which may be damaged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "master/commands/run_options.hpp"

namespace convoy {
namespace {

TEST(Differences, NameEachValue) {
  EXPECT_THAT(differences("seed: 1\n  - {name: c, schedule: {kind: step, every: 3}}\n",
                          "seed: 2\n  - {name: c, schedule: {kind: step, every: 4}}\n"),
              testing::ElementsAre("c.schedule.every was 3 and is now 4", "seed was 1 and is now 2"));
}

/// As deep as a reader's stack, and with each bracket open.
TEST(Differences, AreFoundInHostileTexts) {
  std::string deep = "  - {name: c, ";
  for (int i = 0; i < 200000; ++i) deep += "a: {";
  EXPECT_FALSE(differences(deep, "seed: 1\n").empty());
  EXPECT_FALSE(differences(deep + std::string(200000, '}'), "seed: 1\n").empty());
  for (const char* text : {"{", "}", ": {", "a: {", "  - {name: ", "  - {name: c", "  - {name: c, ", ":", ": "}) {
    EXPECT_NO_THROW(differences(text, "seed: 1\n")) << text;
  }
}

}  // namespace
}  // namespace convoy
