// The undisturbed run with which a simulated one is compared: the same steps under the same plans, by all nodes of a
// plan in one thread and without a network.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "plan/plan.hpp"
#include "train/train.hpp"

namespace convoy::simulation {

/// A step that a run has kept.
struct KeptStep {
  std::shared_ptr<const Plan> plan;
  double loss = 0.0;  ///< sum over the batch
};

/// What a run has come to.
struct Kept {
  std::vector<KeptStep> steps;
  std::map<std::size_t, std::vector<KeptStep>> tests;  ///< by the number of steps before it, the batches of a test
  TrainingState state;
};

/// Runs the steps again. Returns how the outcome differs in a bit, or an empty text.
std::string difference_from_replay(const Kept& kept, const Cut& cut, Training training, const ModelState& start);

}  // namespace convoy::simulation
