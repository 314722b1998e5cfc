// Tests the schedule `snapshots`: its rates, its cycles, and the fields of teachers beside it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nets/graph/net.hpp"

namespace convoy {
namespace {

Net net_trained(const std::string& training, const Overrides& overrides = {}) {
  return parse_net(
      "name: test\ninput: {channels: 3, height: 12, width: 10}\nlayers:\n  - {name: out, type: dense, units: 4}\n"
      "  - {name: loss, type: softmax_cross_entropy}\ntraining: " +
          training + "\n",
      "t.yaml", overrides);
}

TEST(Snapshots, RatesFallInEachCycleAndBeginAnew) {
  const TrainingOptions options =
      net_trained("{epochs: 12, learning_rate: 0.2, schedule: {kind: snapshots}, cycles: 3}").training;
  for (const double cycle : {0.0, 4.0, 8.0}) {
    EXPECT_DOUBLE_EQ(learning_rate(options, cycle), 0.2) << cycle;
    EXPECT_NEAR(learning_rate(options, cycle + 1.0), 0.1 * (1.0 + std::sqrt(0.5)), 1e-12) << cycle;
    EXPECT_NEAR(learning_rate(options, cycle + 2.0), 0.1, 1e-12) << cycle;
    EXPECT_NEAR(learning_rate(options, cycle + 3.9999), 0.0, 1e-8) << cycle;
  }
  EXPECT_NEAR(learning_rate(options, 12.0), 0.0, 1e-12);  // after the last epoch no further cycle begins
}

TEST(Snapshots, WarmUpIsPartOfTheFirstCycleAlone) {
  const TrainingOptions options =
      net_trained("{epochs: 8, learning_rate: 0.2, schedule: {kind: snapshots, warm_up: 2}, cycles: 2}").training;
  EXPECT_NEAR(learning_rate(options, 0.0), 0.02, 1e-12);
  EXPECT_NEAR(learning_rate(options, 2.0), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(options, 3.0), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 4.0), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(options, 6.0), 0.1, 1e-12);
}

TEST(Snapshots, EndTheirCycles) {
  const TrainingOptions options = net_trained("{epochs: 6, schedule: {kind: snapshots}, cycles: 3}").training;
  std::vector<int> ends;
  for (int epochs = 1; epochs <= 6; ++epochs) ends.push_back(cycle_ending_at(options, epochs));
  EXPECT_THAT(ends, testing::ElementsAre(0, 1, 0, 2, 0, 3));
  EXPECT_EQ(cycle_ending_at(net_trained("{epochs: 6, schedule: {kind: cosine}}").training, 6), 0);
}

TEST(Snapshots, AndTeachersSurviveWriting) {
  const Net net = net_trained("{epochs: 6, schedule: {kind: snapshots, warm_up: 0.5}}",
                              {"training.cycles=3", "training.teacher=[runs/a, 'b \"c\".onnx']",
                               "training.temperature=2.5", "training.mix=0.75"});
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(net));
  EXPECT_EQ(again.training.schedule.kind, Schedule::Kind::snapshots);
  EXPECT_EQ(again.training.cycles, 3);
  EXPECT_EQ(again.training.schedule.warm_up, 0.5);
  EXPECT_THAT(again.training.teaching.teachers, testing::ElementsAre("runs/a", "b \"c\".onnx"));
  EXPECT_EQ(again.training.teaching.temperature, 2.5);
  EXPECT_EQ(again.training.teaching.mix, 0.75);
}

TEST(Snapshots, OneTeacherNeedsNoList) {
  EXPECT_THAT(net_trained("{teacher: runs/a}").training.teaching.teachers, testing::ElementsAre("runs/a"));
  EXPECT_THAT(to_yaml(net_trained("{}")), testing::Not(testing::HasSubstr("teacher")));
}

}  // namespace
}  // namespace convoy
