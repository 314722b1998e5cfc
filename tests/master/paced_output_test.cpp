// Tests that nobody can take the numbers of a run that computed nothing for results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/files.hpp"
#include "master/report/record_observers.hpp"
#include "master/report/text_observer.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kPacedDevice = "paced:240";

void tell_of_a_paced_run(Observer& observer) {
  const std::vector<Stage> stages{{.name = "conv1", .channels = 1, .height = 8, .width = 8, .conv = {.filters = 4}}};
  observer.on_start({.net = "glyphs",
                     .data = "glyphs",
                     .device = "paced",
                     .paced = kPacedDevice,
                     .batch = 50,
                     .epochs = 2,
                     .stages = stages,
                     .plan = proportional_plan(stages, 50, {"a", "b"}, {1.0, 1.0})});
  observer.on_step(
      {.step_in_epoch = 1, .steps_per_epoch = 120, .step = 1, .loss = 2.3, .mean_loss = 2.3, .accuracy = 0.1});
  observer.on_epoch({.epoch = 1, .step = 120, .train_loss = 2.3, .test_loss = 2.3, .test_accuracy = 0.1});
  observer.on_end({.how = "finished", .best_epoch = 1, .best_accuracy = 0.1, .test_accuracy = 0.1});
}

TEST(PacedOutput, OfJsonIsMarkedInEveryLine) {
  Memory memory;
  tell_of_a_paced_run(*make_json_observer(memory.stream(), kPacedDevice));
  std::istringstream lines(memory.text());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(nlohmann::json::parse(line)["paced"], kPacedDevice) << line;
  }
  EXPECT_EQ(count, 4);
}

TEST(PacedOutput, OfTheRunFolderIsMarkedInEveryRow) {
  const TemporaryFolder folder;
  tell_of_a_paced_run(*make_file_observer(folder.path(), kPacedDevice));
  EXPECT_THAT(read_text(folder.path() + "/results.csv"),
              testing::MatchesRegex("epoch,[^\n]*,paced\n1,120,[^\n]*,paced:240\n"));
  EXPECT_THAT(read_text(folder.path() + "/events.jsonl"), HasSubstr("\"paced\":\"paced:240\""));
}

TEST(PacedOutput, AsTextHasTheDeviceInThePlaceOfResults) {
  Memory memory;
  tell_of_a_paced_run(*make_text_observer({.to = memory.stream(), .size = {}, .seconds_between = 0.0}));
  EXPECT_THAT(memory.text(), testing::AllOf(HasSubstr("paced:240: this run is a measurement"),
                                            HasSubstr("step 1/120  paced:240, nothing is computed"),
                                            HasSubstr("epoch 1/2: paced:240, nothing is computed"),
                                            HasSubstr("paced:240: nothing was computed, and no weights were saved")));
  for (const char* result : {"loss", "accuracy"}) EXPECT_THAT(memory.text(), Not(HasSubstr(result)));
}

}  // namespace
}  // namespace convoy
