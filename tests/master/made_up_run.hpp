// A run that is made up, for tests of what observers make of it.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "train/observer.hpp"

namespace convoy {

inline RunStart start_of(int first = 50, int second = 50) {
  const Stage stage{
      .name = "conv1", .channels = 3, .height = 8, .width = 8, .conv = {.filters = 100, .kernel_h = 3, .kernel_w = 3}};
  return {.net = "glyphs",
          .folder = "runs/glyphs-1",
          .data = "glyphs",
          .device = "cpu",
          .parameters = 253514,
          .batch = 50,
          .epochs = 10,
          .training_images = 6000,
          .test_images = 1000,
          .stages = {stage},
          .plan = {.batch = 50, .members = {"slave-1", "slave-2"}, .stages = {stage_plan({first, second}, 50)}}};
}

inline StepReport step_of(long step) {
  return {
      .epoch = 1,
      .step_in_epoch = static_cast<int>(step),
      .steps_per_epoch = 120,
      .step = step,
      .loss = 1.25,
      .mean_loss = 1.5,
      .accuracy = 0.5,
      .images_per_second = 2807.4,
      .seconds = 0.02,
      .seconds_left = 125.0,
      .learning_rate = 0.01,
      .times = {{.member = "slave-1", .compute = 0.9, .transfer = 0.06, .wait = 0.04, .sent = 25e4, .received = 2e6},
                {.member = "slave-2",
                 .compute = 0.5,
                 .transfer = 0.1,
                 .wait = 0.4,
                 .sent = 2.1e6,
                 .received = 993.0,
                 .states_sent = 3e5,
                 .states_received = 7.0}}};
}

inline const EpochReport kEpoch{.epoch = 1,
                                .step = 120,
                                .train_loss = 1.0557,
                                .train_accuracy = 0.6355,
                                .test_loss = 0.1049,
                                .test_accuracy = 0.976,
                                .images_per_second = 2807.0,
                                .seconds = 2.0,
                                .learning_rate = 0.01};

inline const RunEnd kEnd{.how = "finished",
                         .go_on = "",
                         .test_accuracy = 0.976,
                         .times = {{.member = "slave-1", .compute = 0.5, .transfer = 0.1, .wait = 0.4},
                                   {.member = "slave-2", .compute = 0.25, .transfer = 0.25, .wait = 0.5}},
                         .seconds = 7.0};

/// The objects of lines of JSON.
inline std::vector<nlohmann::json> events_in(const std::string& text) {
  std::vector<nlohmann::json> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

}  // namespace convoy
