// Which work of a plan's slaves the master can repeat, because all that goes into it and comes out of it passes through
// the master. A pure function of the plan.
#pragma once

#include <vector>

#include "plan/task_graph.hpp"

namespace convoy {

/// A slave's filters of a stage that the master can compute again. The tasks are indices of the graph's sends.
struct VerifiableTile {
  std::size_t stage = 0;
  int node = 0;  ///< of the slave
  FilterRange filters;
  std::vector<int> maps;  ///< by which the slave sends the master maps of these filters
  /// By which the master sends the slave the gradient with respect to these maps. Empty where the slave adds it up
  /// alone; then the master can repeat the forward pass only.
  std::vector<int> gradients;
  /// By which the slave sends the master its part of the gradient with respect to the stage's inputs, where nothing but
  /// this tile contributes to the part.
  std::vector<int> parts;
};

/// Returns the tiles of all slaves that the master can compute again: the maps that they read are all at the master,
/// and the slave sends the master maps or parts of gradients, or is sent the gradient from which it finds that of its
/// weights.
std::vector<VerifiableTile> verifiable_tiles(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& graph);

}  // namespace convoy
