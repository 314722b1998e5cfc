// A step of training as a plan has it done: what each node computes and sends, and what that waits for. Pure data, made by
// a pure function, the same for everybody who has the plan.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace convoy {

enum class TaskKind {
  forward,           ///< of a micro-batch
  backward_input,    ///< of a micro-batch: the node's part of the gradient by what the stage reads
  backward_filters,  ///< of the batch
  update,            ///< all of a node's shards
  sum,          ///< adds the nodes' parts of a micro-batch's gradient by the stage's maps up, in the order of `after`
  head,         ///< dense layers and loss, forward and back to the gradient by a micro-batch's outputs, on the master
  head_update,  ///< the gradients by the dense layers' weights, of the batch, and their update
  layers,       ///< in the thesis' scheme, on the master: what follows a stage's convolution, forward
  layers_backward,
  send
};

/// What a send carries, of stage `stage`.
enum class Cargo {
  maps,         ///< channels `filters` of its maps, or of the images
  part,         ///< channels `filters` of one node's part of the gradient by them
  gradient,     ///< channels `filters` of the gradient by them
  weights,      ///< filters `filters` of the stage
  raw_maps,     ///< in the thesis' scheme: channels `filters` of the stage's convolution, before the layers after it
  raw_gradient  ///< by those
};

struct Task {
  TaskKind kind = TaskKind::forward;
  int node = 0;   ///< who computes, or sends
  int stage = 0;  ///< or Source::kImages, where maps are sent
  int micro_batch = 0;
  FilterRange filters;  ///< computed, or carried
  Cargo cargo = Cargo::maps;
  int to = -1;             ///< who receives
  std::vector<int> after;  ///< indices of earlier tasks
};

/// Nodes are the plan's members in their order, and the master: the member of that name, or one more.
struct TaskGraph {
  int nodes = 0;
  int master = 0;
  std::vector<Task>
      tasks;  ///< in an order in which they could be done one by one; of what is ready, a node does the first
};

/// The node of the master.
int master_of(const Plan& plan);

/// A step of training, or a forward pass that ends with the head. The plan must be valid for the trunk.
TaskGraph make_task_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training = true);

/// For each task those that wait for it.
std::vector<std::vector<int>> followers_of(const TaskGraph& graph);

/// Of stage `stage`: the filters that a node's shard has; those whose weights it needs at all, which are all where it
/// replicates the stage, or sends them out. Empty ranges for none.
FilterRange own_filters(const Plan& plan, std::size_t stage, int node);
FilterRange held_filters(const Plan& plan, const TaskGraph& graph, std::size_t stage, int node);

/// A part of a gradient to a master that sums, which receives one from every shard: whoever sends it waits for credit.
bool needs_credit(const Task& task, const TaskGraph& graph, const Plan& plan);

/// The number type in which a send's values travel, and how many they are.
NumberType wire_type(const Task& sent, const Plan& plan);
std::size_t values_of(const Task& sent, const Plan& plan, const std::vector<Stage>& trunk);
/// Bytes that a send carries, in the plan's number type; weights and their like in 32 bits.
double bytes_of(const Task& task, const Plan& plan, const std::vector<Stage>& trunk);

}  // namespace convoy
