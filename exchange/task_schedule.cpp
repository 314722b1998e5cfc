#include "exchange/task_schedule.hpp"

#include <algorithm>

namespace convoy {

TaskSchedule::Graph::Graph(const TaskGraph& of, const std::vector<Stage>& trunk)
    : graph(of), followers(followers_of(of)) {
  for (const Task& task : of.tasks) values.push_back(task.kind == TaskKind::send ? values_of(task, trunk) : 0);
}

TaskSchedule::TaskSchedule(const NodePlan& plan)
    : plan_(plan), training_(plan.training, plan.trunk), testing_(plan.testing, plan.trunk) {}

std::vector<int> TaskSchedule::begin(const StepWork& work, const std::function<bool(const Task&)>& done_before) {
  work_ = work;
  const bool training = work.update || work.trains();
  current_ = training ? &training_ : &testing_;
  heads_.clear();
  missing_.assign(graph().tasks.size(), 0);
  done_.assign(graph().tasks.size(), false);
  gradients_left_ = 0;
  std::vector<int> free;
  for (std::size_t i = 0; i < graph().tasks.size(); ++i) {
    const Task& each = graph().tasks[i];
    done_[i] = !is_in(each, work) || done_before(each);
    if (done_[i]) continue;
    missing_[i] = static_cast<std::size_t>(
        std::ranges::count_if(each.after, [&](int before) { return is_in(task(before), work); }));
    if (each.kind == TaskKind::head) heads_.push_back(static_cast<int>(i));
    if (each.node == plan_.index || each.to == plan_.index) ++left_;
    if (plan_.finds_gradients(each)) ++gradients_left_;
    if (missing_[i] == 0 && each.node == plan_.index) free.push_back(static_cast<int>(i));
  }
  return free;
}

std::vector<int> TaskSchedule::finish(int index) {
  --left_;
  done_[index] = true;
  if (plan_.finds_gradients(task(index))) --gradients_left_;
  std::vector<int> free;
  for (const int follower : followers(index)) {
    if (task(follower).node != plan_.index || !is_in(task(follower), work_)) continue;
    if (--missing_[follower] == 0) free.push_back(follower);
  }
  return free;
}

std::optional<int> TaskSchedule::take_ready() {
  if (ready_.empty()) return std::nullopt;
  return ready_.extract(ready_.begin()).value();
}

int TaskSchedule::heads_ready() const {
  const auto waits = [this](int head) { return missing_[head] > 0; };
  return static_cast<int>(std::ranges::find_if(heads_, waits) - heads_.begin());
}

std::optional<int> TaskSchedule::awaited_sender() const {
  if (current_ == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < graph().tasks.size(); ++i) {
    const Task& each = graph().tasks[i];
    if (each.kind == TaskKind::send && each.to == plan_.index && !done_[i]) return each.node;
  }
  return std::nullopt;
}

}  // namespace convoy
