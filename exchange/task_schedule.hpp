// The course of a step on one node: which tasks of the graph are done, and which of the node's own may begin.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "exchange/node_plan.hpp"

namespace convoy {

class TaskSchedule {
 public:
  /// `plan` must outlive the schedule.
  explicit TaskSchedule(const NodePlan& plan);

  /// Begins a step that does `work`. `done_before` returns whether a task was done before the step began. Returns the
  /// node's tasks that wait for no other, in ascending order.
  std::vector<int> begin(const StepWork& work, const std::function<bool(const Task&)>& done_before);
  /// A task of the node, or a send to it, is done. Returns the node's tasks that now wait for no other.
  std::vector<int> finish(int index);
  /// The node can compute a task whenever it has time.
  void make_ready(int index) { ready_.insert(index); }
  /// Takes the first ready task; nothing where none is ready.
  std::optional<int> take_ready();

  /// The graph of the current step, or of the last one; there is none before the first step.
  bool has_begun() const { return current_ != nullptr; }
  bool is_training() const { return current_ == &training_; }
  const TaskGraph& graph() const { return current_->graph; }
  bool is_task(int index) const { return index >= 0 && static_cast<std::size_t>(index) < graph().tasks.size(); }
  /// The number of values of a send task.
  std::size_t values(int index) const { return current_->values[index]; }
  const Task& task(int index) const { return graph().tasks[index]; }
  /// The tasks of all nodes that wait for a task.
  const std::vector<int>& followers(int index) const { return current_->followers[index]; }
  bool is_done(int index) const { return done_[index]; }
  /// The head tasks, by micro-batch, and how many of them, counted from the first, have what they wait for.
  const std::vector<int>& heads() const { return heads_; }
  int heads_ready() const;
  bool any_ready() const { return !ready_.empty(); }
  /// The number of tasks that the node still has to do, to send or to receive.
  std::size_t left() const { return left_; }
  /// Whether all gradients of the filters that the node owns are known.
  bool gradients_ready() const { return gradients_left_ == 0; }
  /// The sender of the first values, in the order of the graph, that have not all arrived here. Nothing if all have
  /// arrived.
  std::optional<int> awaited_sender() const;

 private:
  /// A graph and facts about its tasks.
  struct Graph {
    Graph(const TaskGraph& of, const std::vector<Stage>& trunk);

    const TaskGraph& graph;
    std::vector<std::vector<int>> followers;
    std::vector<std::size_t> values;  ///< of sends; 0 for other tasks
  };

  const NodePlan& plan_;
  Graph training_;
  Graph testing_;
  const Graph* current_ = nullptr;
  StepWork work_;
  std::vector<int> heads_;
  std::vector<std::size_t> missing_;  ///< by task, how many of the tasks that it waits for are not done
  std::vector<bool> done_;            ///< by task
  std::set<int> ready_;
  std::size_t gradients_left_ = 0;  ///< tasks of NodePlan::finds_gradients() that are not done
  std::size_t left_ = 0;
};

}  // namespace convoy
