// A plan's training step as tasks: the computations and sends of each node, and the tasks that each one waits for. The
// graph is pure data, computed by a pure function, and equal for all nodes with the same plan.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "core/step_work.hpp"
#include "plan/plan.hpp"

namespace convoy {

/// The operation of a task.
enum class TaskKind {
  forward,           ///< one micro-batch of a stage
  backward_input,    ///< one micro-batch: the node's part of the gradient with respect to the stage's input
  backward_filters,  ///< all micro-batches: the gradients with respect to the stage's weights
  /// Adds the holders' gradients with respect to the weights of filters that the node owns, in the order of `after`.
  filter_sum,
  update,  ///< the filters of the node's tile, by the gradients of the step before
  /// Adds the nodes' parts of a micro-batch's gradient with respect to the stage's maps, in the order of `after`.
  sum,
  /// Finds the moments or the slopes (kernels/joint_statistics.hpp) of a batch norm over the node's samples, where the
  /// stage is cut along samples.
  statistics,
  join_statistics,  ///< joins the statistics of all rows, in the order of `after`
  /// With joint moments, computes the layers up to the next batch norm or, after the last one, the maps. With joint
  /// slopes, computes the batch norm and the layers before it backward.
  take_statistics,
  /// On the master: dense layers and loss, forward and back to the gradient with respect to a micro-batch's outputs.
  head,
  head_update,  ///< on the master: the dense layers' weight gradients of the batch, and their update
  layers,       ///< the thesis' scheme, on the master: the layers after a stage's convolution, forward
  layers_backward,
  send
};

/// The content of a send, of stage `stage`. Tasks that concern statistics have moments or slopes.
enum class Cargo {
  maps,         ///< channels `filters` of the stage's maps, or of the images
  part,         ///< channels `filters` of one node's part of the gradient with respect to the maps
  filter_part,  ///< the gradient with respect to the weights of filters `filters`, of the sender's samples
  filter_sum,   ///< the sum of those gradients of all samples
  gradient,     ///< channels `filters` of the gradient with respect to the maps
  weights,      ///< filters `filters` of the stage
  moments,      ///< of a batch norm: channels `filters` of the sender's samples
  slopes,
  joint_moments,  ///< in a star: channels `filters` of all samples
  joint_slopes,
  raw_maps,     ///< the thesis' scheme: channels `filters` of the convolution's output, before the layers after it
  raw_gradient  ///< the gradient with respect to raw_maps
};

/// One computation or send of a node.
struct Task {
  TaskKind kind = TaskKind::forward;
  int node = 0;   ///< the node that computes or sends
  int stage = 0;  ///< Source::kImages where images are sent
  int micro_batch = 0;
  FilterRange filters;  ///< filters computed, or channels sent
  SampleRange samples;  ///< of the micro-batch, or of every micro-batch where a task computes all of them
  Cargo cargo = Cargo::maps;
  int norm = 0;            ///< the batch norm whose statistics these are, by its number in the stage
  int to = -1;             ///< the node that receives
  bool of_update = false;  ///< it belongs to the update by the gradients of the step before, not to the pass
  std::vector<int> after;  ///< indices of the earlier tasks that this task waits for
};

/// The nodes are the plan's members in their order, and the master: the member of that name, or one more node.
struct TaskGraph {
  int nodes = 0;
  int master = 0;
  std::vector<Task> tasks;  ///< in an order that respects `after`; a node executes the first of its ready tasks
};

/// Returns the node of the master.
int master_of(const Plan& plan);

/// Returns the tasks of a training step, or of a forward pass that ends with the head. A training step begins with the
/// update by the gradients of the step before, and each stage waits for its own update alone, so that weights travel
/// while stages are computed. The plan must be valid for the trunk.
TaskGraph make_task_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training = true);

/// Returns, for each task, the tasks that wait for it.
std::vector<std::vector<int>> followers_of(const TaskGraph& graph);

/// Returns the filters of a stage that a node owns, so that it updates their weights; the count is 0 where it owns
/// none.
FilterRange own_filters(const Plan& plan, std::size_t stage, int node);
/// Returns the filters of a stage whose weights a node updates itself, so that it has all of their state: the filters
/// that it owns, and where the stage is cut along samples the filters whose sums of gradients it takes from their
/// owners. Ranges are in ascending order, with gaps between them.
std::vector<FilterRange> updated_filters(const Plan& plan, std::size_t stage, int node);
/// Returns the filters of a stage whose weights a node needs, and the samples of each micro-batch for which it needs
/// them: its tile, or the whole stage where it replicates the stage or sends the weights to others.
Box held_box(const Plan& plan, const TaskGraph& graph, std::size_t stage, int node);
/// Returns held_box() of each stage.
std::vector<Box> held_boxes(const Plan& plan, const TaskGraph& graph, int node);
/// Returns the filters of held_box().
FilterRange held_filters(const Plan& plan, const TaskGraph& graph, std::size_t stage, int node);
/// Returns whether a send carries weights or their gradients.
bool concerns_weights(const Task& sent);
/// Returns whether a send passes on values as they arrived in an earlier send: weights or their gradients, in a star.
bool passes_on(const Task& task, const TaskGraph& graph);
/// Returns whether a node updates weights in a training step.
bool updates(const TaskGraph& graph, int node);
/// Returns whether a task belongs to a step that does `work`.
bool is_in(const Task& task, const StepWork& work);

/// Returns whether a send must wait for credit: it carries a part of a gradient to a master that sums, and so receives
/// one from every shard.
bool needs_credit(const Task& task, const TaskGraph& graph, const Plan& plan);

/// Returns the lane of a send. To and from the master there is one lane alone.
Lane lane_of(const Task& sent, const TaskGraph& graph);

/// Returns the slaves to which a slave sends, and the lanes, in a training step or in a forward pass outside training.
/// Images that slaves relay may pass over others in the one than in the other.
std::set<std::pair<int, Lane>> slaves_sent_to(const Plan& plan, const std::vector<Stage>& trunk, int slave);

/// Returns whether a task finds, joins or takes statistics of a batch norm.
bool concerns_statistics(const Task& task);
/// Returns whether a send carries statistics of a batch norm, of one row or of all.
bool carries_statistics(const Task& sent);
/// Returns whether a send carries images, which travel as pixels: a byte for each value.
bool carries_images(const Task& sent);
/// Returns the number type in which a send's values travel, unless they are pixels.
NumberType wire_type(const Task& sent, const Plan& plan);
/// Returns the number of values of a send.
std::size_t values_of(const Task& sent, const std::vector<Stage>& trunk);
/// Returns the bytes of a send's values; 0 for other tasks.
double bytes_of(const Task& task, const Plan& plan, const std::vector<Stage>& trunk);

/// The bytes of the values that a node sends and receives in a step.
struct Traffic {
  double sent = 0.0;
  double received = 0.0;
};

/// Returns the traffic of each node in a step that does `work`, by default an update and a training pass.
std::vector<Traffic> traffic_of(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                                const StepWork& work = {.update = UpdateStep{}, .pass = Pass{.training = true}});

}  // namespace convoy
