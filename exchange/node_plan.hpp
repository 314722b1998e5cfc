// A plan as one of its nodes sees it.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/residence.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

struct NodePlan {
  NodePlan(const Plan& whole, const std::vector<Stage>& stages, int node);

  /// The node's tile of a stage; it has no filters where the node has none.
  Tile tile(int stage) const { return tile_of(plan.stages[stage], index); }
  /// The samples of each micro-batch that the node's shards of a stage compute.
  SampleRange samples(int stage) const { return held[stage].samples; }
  /// The samples of a computing task, counted among the samples of the node's shard.
  SampleRange shard_samples(const Task& task) const {
    const int count = samples(task.stage).count;
    return {task.micro_batch * count, count};
  }
  /// Whether each member that reads the stage's maps computes them.
  bool everywhere(int stage) const { return convoy::everywhere(plan.stages[stage]); }
  /// Whether a stage's maps are needed on the host.
  bool leaves(int stage) const { return thesis || residence.leaves[stage]; }
  /// Whether the gradient with respect to a stage's maps stays on the device.
  bool adds_here(int stage) const { return residence.gradients[stage]; }
  /// Whether the heads' gradient with respect to a stage's maps goes to the node's own shard alone.
  bool from_heads(int stage) const { return residence.from_heads[stage]; }
  /// Whether several members find gradients of the same weights, so that owners add these up.
  bool joins_gradients(int stage) const { return joins[stage]; }
  /// Whether the node knows more of its own filters' gradients after a task.
  bool finds_gradients(const Task& task) const;
  /// Whether a step needs the gradient with respect to the values that a stage reads.
  bool needs_gradient(const Read& read) const { return read.stage >= 0 && needed[read.stage]; }
  bool is_master() const { return index == training.master; }

  Plan plan;
  std::vector<Stage> trunk;
  int index;
  bool thesis;         ///< whether shards compute convolutions alone
  TaskGraph training;  ///< of a training step, its update included
  TaskGraph testing;
  /// By stage, whether a step needs the gradient with respect to its maps. The scheme of the thesis finds all of them.
  std::vector<bool> needed;
  std::vector<bool> joins;  ///< by stage, whether joins_gradients() holds
  std::vector<Box> held;    ///< held_box() of this node, by stage
  Residence residence;
};

}  // namespace convoy
