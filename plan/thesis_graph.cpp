#include "plan/thesis_graph.hpp"

#include <vector>

namespace convoy {
namespace {

class Builder {
 public:
  Builder(const Plan& plan, const std::vector<Stage>& trunk) : plan_(plan), trunk_(trunk) {
    graph_.master = master_of(plan);
    graph_.nodes = graph_.master + 1;
  }

  TaskGraph build(bool training) {
    const auto stages = static_cast<int>(trunk_.size());
    updated_.resize(trunk_.size());
    for (int s = 0; s < stages && training; ++s) update(s);
    for (int s = 0; s < stages; ++s) forward(s);
    last_ = {add({.kind = TaskKind::head, .node = graph_.master, .stage = stages - 1, .after = last_})};
    if (!training) return std::move(graph_);
    add({.kind = TaskKind::head_update, .node = graph_.master, .stage = stages - 1, .after = last_});
    for (int s = stages - 1; s >= 0; --s) backward(s);
    return std::move(graph_);
  }

 private:
  const std::vector<Assignment>& shards(int stage) const { return plan_.stages[stage].rows[0].shards; }
  FilterRange all(int stage) const { return {0, trunk_[stage].conv.filters}; }
  FilterRange inputs(int stage) const { return {0, trunk_[stage].channels}; }

  /// Every task concerns all samples: the batch does not travel in parts, and stages are cut along filters alone.
  int add(Task task) {
    task.samples = {0, plan_.batch};
    graph_.tasks.push_back(std::move(task));
    return static_cast<int>(graph_.tasks.size()) - 1;
  }

  /// Adds a send that begins after the tasks `after`. Returns the tasks after which the receiver has the values. A node
  /// sends nothing to itself.
  std::vector<int> send(int from, int to, Cargo cargo, int stage, FilterRange filters, const std::vector<int>& after,
                        bool of_update = false) {
    if (from == to) return after;
    return {add({.kind = TaskKind::send,
                 .node = from,
                 .stage = stage,
                 .filters = filters,
                 .cargo = cargo,
                 .to = to,
                 .of_update = of_update,
                 .after = after})};
  }

  static void append(std::vector<int>& tasks, const std::vector<int>& more) {
    tasks.insert(tasks.end(), more.begin(), more.end());
  }

  /// Each member updates its filters, and the slaves send the weights back to the master.
  void update(int s) {
    for (const Assignment& shard : shards(s)) {
      const int done = add(
          {.kind = TaskKind::update, .node = shard.member, .stage = s, .filters = shard.filters, .of_update = true});
      append(updated_[s], send(shard.member, graph_.master, Cargo::weights, s, shard.filters, {done}, true));
    }
  }

  void forward(int s) {
    const std::vector<int>& updated = updated_[s];
    std::vector<int> raw;
    for (const Assignment& shard : shards(s)) {
      std::vector<int> needs = send(graph_.master, shard.member, Cargo::maps, s - 1, inputs(s), last_);
      if (shard.member != graph_.master) {
        std::vector<int> ready = last_;
        append(ready, updated);
        append(needs, send(graph_.master, shard.member, Cargo::weights, s, shard.filters, ready));
      } else {
        append(needs, updated);
      }
      const int made = add({.kind = TaskKind::forward,
                            .node = shard.member,
                            .stage = s,
                            .filters = shard.filters,
                            .after = std::move(needs)});
      append(raw, send(shard.member, graph_.master, Cargo::raw_maps, s, shard.filters, {made}));
    }
    last_ = {add({.kind = TaskKind::layers, .node = graph_.master, .stage = s, .filters = all(s), .after = raw})};
  }

  void backward(int s) {
    const int raw =
        add({.kind = TaskKind::layers_backward, .node = graph_.master, .stage = s, .filters = all(s), .after = last_});
    std::vector<int> parts;
    for (const Assignment& shard : shards(s)) {
      const int part = add({.kind = TaskKind::backward_input,
                            .node = shard.member,
                            .stage = s,
                            .filters = shard.filters,
                            .after = send(graph_.master, shard.member, Cargo::raw_gradient, s, shard.filters, {raw})});
      add({.kind = TaskKind::backward_filters,
           .node = shard.member,
           .stage = s,
           .filters = shard.filters,
           .after = {part}});
      if (s > 0) append(parts, send(shard.member, graph_.master, Cargo::part, s - 1, inputs(s), {part}));
    }
    if (s > 0) {
      last_ = {
          add({.kind = TaskKind::sum, .node = graph_.master, .stage = s - 1, .filters = inputs(s), .after = parts})};
    }
  }

  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  TaskGraph graph_;
  std::vector<int> last_;                  ///< tasks after which the master has the values for the next stage
  std::vector<std::vector<int>> updated_;  ///< by stage, the tasks after which the master has the updated weights
};

}  // namespace

TaskGraph make_thesis_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training) {
  return Builder(plan, trunk).build(training);
}

}  // namespace convoy
