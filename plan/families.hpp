// The forms of plans that the planner tries.
#pragma once

#include <cstddef>
#include <vector>

#include "core/stage.hpp"
#include "plan/choose.hpp"
#include "plan/plan.hpp"

namespace convoy {

/// The properties of a plan other than its shares.
struct Form {
  Exchange exchange = Exchange::star;
  int micro_batches = 1;
  std::size_t replicated = 0;  ///< number of first stages that are replicated
  bool relayed = false;
  std::size_t by_samples = 0;  ///< number of first stages that are cut along samples
};

/// Forms that differ in the number of micro-batches alone, the fewest first.
using Family = std::vector<Form>;

/// Returns all families that the wishes allow, simple ones first.
std::vector<Family> families(const std::vector<Stage>& trunk, int batch, const Wishes& wishes);

/// Returns the values of Plan::early_sums other than 0 that may shorten a step of the plan, in ascending order: the
/// last stages with at least 1, 2, 3, 4 and 5 tenths of the weights whose sums travel. The sums of a larger part would
/// fill the links while the gradients of earlier stages need them. No sums travel where a parameter server updates
/// weights.
std::vector<int> early_sums_to_try(const Plan& plan, const std::vector<Stage>& trunk);

}  // namespace convoy
