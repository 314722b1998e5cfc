// Builds the task graph of a plan, stage by stage. Only the sources of make_task_graph() include this header.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/shard_state.hpp"
#include "plan/needs.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// A stage's index stands for its maps, Source::kImages for the images.
class GraphBuilder {
 public:
  GraphBuilder(const Plan& plan, const std::vector<Stage>& trunk, bool training);

  TaskGraph build();

 private:
  using Key = std::tuple<int, int, int>;  // stage, micro-batch, node

  const Stage& stage(int s) const { return trunk_[s]; }
  const StagePlan& plan_of(int s) const { return plan_.stages[s]; }
  std::vector<Tile> tiles(int s) const { return tiles_of(plan_of(s)); }
  bool replicated(int s) const { return plan_of(s).replicated; }
  bool everywhere(int s) const { return convoy::everywhere(plan_of(s)); }
  bool normalises(int s) const { return has_batch_norm(stage(s)); }
  /// Returns whether the stage has weights, and all of them are frozen.
  bool frozen(int s) const { return has_parameters(stage(s)) && !has_trained_parameters(stage(s)); }
  /// Returns whether several members hold weights of the stage and find parts of their gradients.
  bool joins_gradients(int s) const { return has_several_rows(plan_of(s)) && has_trained_parameters(stage(s)); }
  /// Returns whether owners send the sums of a stage's gradients as soon as they have them.
  bool sends_sums_early(int s) const { return s >= static_cast<int>(trunk_.size()) - plan_.early_sums; }
  /// Returns whether several members normalise over the stage's samples together.
  bool joins_statistics(int s) const { return training_ && has_several_rows(plan_of(s)) && batch_norms(stage(s)) > 0; }
  Box whole(int s) const;
  std::vector<int> stages_read(int s) const;

  int add(Task task);
  int add_pass(TaskKind kind, int s, int m, const Computing& each, std::vector<int> after);
  int send(int from, int to, Cargo cargo, int s, int micro_batch, const Box& box, std::vector<int> after);
  /// Returns the tasks after which a node may read the maps: sends that bring them, and its own computations.
  std::vector<int>& arrivals(int value, int micro_batch, int node) { return arrivals_[{value, micro_batch, node}]; }

  void deliver_maps(int value, int m);
  void deliver_images(int m);
  void forward(int s, int m);
  void give_out(int s);
  void head();
  void deliver_gradients();
  void backward_input(int s, int m);
  void collect(int value, int m);
  int sum_at(int node, int value, int m, const Box& box);

  /// The statistics of a batch norm on their way.
  struct Joining {
    int stage = 0;
    int norm = 0;
    Cargo cargo = Cargo::moments;
    /// By node that joins them, the tasks after which it has those of each tile, in the order of the rows.
    std::map<int, std::vector<int>> arrived;
  };
  void join_moments(int s);
  Joining find_slopes(int s, int norm);
  void join_slopes(int s, Joining last);
  Joining find_statistics(int s, int norm, Cargo cargo, const std::map<int, std::vector<int>>& ready);
  std::map<int, std::vector<int>> take_statistics(const Joining& joining);

  /// Weights, or sums of their gradients, that an owner sends another member.
  struct Delivery {
    int owner = 0;
    int user = 0;
    FilterRange filters;
  };
  std::vector<Delivery> deliveries(int s, bool of_sums) const;
  void send_updates(int s);
  void update_here(int s);
  void update(int s, int member);
  void backward_filters(int s);
  void send_filter_parts(int s, const Tile& tile, int found);
  int send_weights(int from, int to, Cargo cargo, int s, const Box& box, std::vector<int> after);
  void sum_filters(int s);

  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  bool training_;
  std::vector<int> outputs_;
  std::vector<bool> needed_;  ///< by stage, whether a step needs the gradient with respect to its maps
  TaskGraph graph_;
  std::vector<int> heads_;  ///< by micro-batch
  Needs needs_;
  std::set<std::pair<int, int>> delivered_;  ///< stage, micro-batch
  std::map<Key, std::vector<int>> arrivals_;
  std::map<Key, int> computed_;
  std::map<Key, int> part_;       ///< the last task at the node that adds to its part
  std::map<Key, int> gradients_;  ///< the task after which a node has the gradient of its own filters' maps
  std::map<std::pair<int, int>, std::vector<int>> backward_tasks_;
  /// The sends of weights and their gradients to the master of a star: by sender, cargo, stage, first filter and
  /// filters.
  std::map<std::tuple<int, int, int, int, int>, int> at_master_;
  /// By stage and owner, the tasks after which the owner has each part of its filters' gradients, in the order of rows.
  std::map<std::pair<int, int>, std::vector<int>> filter_parts_;
  /// By stage and node, the task after which the layers up to the first batch norm have been computed backward.
  std::map<std::pair<int, int>, int> normalised_back_;
  /// By stage and node that updates filters of others by the sums of gradients, the sends of this step that bring it
  /// the sums. Early ones have come in the step before.
  std::map<std::pair<int, int>, std::vector<int>> sums_;
  std::set<std::pair<int, int>> updates_;  ///< stage and node of each update
  /// By stage and node, the tasks after which the node has the updated weights; its own update is the first.
  std::map<std::pair<int, int>, std::vector<int>> updated_;
};

/// Appends tasks that are not in the list.
void append_tasks(std::vector<int>& to, const std::vector<int>& more);

}  // namespace convoy
