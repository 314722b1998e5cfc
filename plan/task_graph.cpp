#include "plan/task_graph.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/shard_state.hpp"
#include "plan/thesis_graph.hpp"

namespace convoy {
namespace {

/// Builds the graph stage by stage. X(s) is the input of stage s, X(stages) the trunk's output.
class Builder {
 public:
  Builder(const Plan& plan, const std::vector<Stage>& trunk) : plan_(plan), trunk_(trunk) {
    graph_.master = master_of(plan);
    graph_.nodes = graph_.master + 1;
    find_users();
  }

  TaskGraph build(bool training) {
    const auto stages = static_cast<int>(trunk_.size());
    for (int s = 0; s < stages; ++s) {
      for (int m = 0; m < plan_.micro_batches; ++m) forward(s, m);
      give_out(s);
    }
    for (int m = 0; m < plan_.micro_batches; ++m) deliver_maps(stages, m);
    head();
    if (!training) return std::move(graph_);
    deliver_gradient();
    for (int s = stages - 1; s >= 0; --s) {
      for (int m = 0; m < plan_.micro_batches; ++m) backward_input(s, m);
    }
    // Last, so that a node does them where nobody waits for it.
    for (int s = stages - 1; s >= 0; --s) backward_filters(s);
    update();
    return std::move(graph_);
  }

 private:
  using Shards = std::vector<Assignment>;

  const Shards& shards(int stage) const { return plan_.stages[static_cast<std::size_t>(stage)].shards; }
  bool replicated(int stage) const { return plan_.stages[static_cast<std::size_t>(stage)].replicated; }
  bool normalises(int stage) const { return has_batch_norm(trunk_[static_cast<std::size_t>(stage)]); }
  bool direct(int from, int to) const {
    return plan_.exchange == Exchange::ring || from == graph_.master || to == graph_.master;
  }

  /// users_[s]: who needs X(s), for forward or backward of stage s; at last, the master.
  void find_users() {
    const std::size_t stages = trunk_.size();
    users_.resize(stages + 1);
    users_[stages] = {graph_.master};
    for (std::size_t s = stages; s-- > 0;) {
      for (const Assignment& shard : shards(static_cast<int>(s))) users_[s].push_back(shard.member);
      if (!replicated(static_cast<int>(s))) continue;
      for (const int user : users_[s + 1]) {
        if (std::ranges::find(users_[s], user) == users_[s].end()) users_[s].push_back(user);
      }
    }
  }

  int add(Task task) {
    graph_.tasks.push_back(std::move(task));
    return static_cast<int>(graph_.tasks.size()) - 1;
  }

  /// What a node must have of X(s) before it computes: sends that bring it, and its own computing.
  std::vector<int>& needs(int s, int micro_batch, int node) { return needs_[{s, micro_batch, node}]; }

  int send(int from, int to, Cargo cargo, int s, int micro_batch, FilterRange channels, std::vector<int> after) {
    return add({.kind = TaskKind::send,
                .node = from,
                .stage = s,
                .micro_batch = micro_batch,
                .filters = channels,
                .cargo = cargo,
                .to = to,
                .after = std::move(after)});
  }

  /// Brings X(s) of a micro-batch to all that need it; what they compute of it is done.
  void deliver_maps(int s, int m) {
    const std::vector<int>& users = users_[static_cast<std::size_t>(s)];
    if (s == 0) return deliver_images(m);
    for (const Assignment& shard : shards(s - 1)) {
      if (replicated(s - 1)) break;  // whoever needs it computes it
      const int made = computed_.at({s - 1, m, shard.member});
      int at_master = -1;
      // The receivers in turn, beginning behind the sender, so that not all send to the same one first.
      for (std::size_t i = 0; i < users.size(); ++i) {
        const int user = users[(i + position(users, shard.member) + 1) % users.size()];
        if (user == shard.member) {
          needs(s, m, user).push_back(made);
        } else if (direct(shard.member, user)) {
          const int sent = user == graph_.master && at_master >= 0
                               ? at_master
                               : send(shard.member, user, Cargo::maps, s, m, shard.filters, {made});
          if (user == graph_.master) at_master = sent;
          needs(s, m, user).push_back(sent);
        } else {
          if (at_master < 0) {
            at_master = send(shard.member, graph_.master, Cargo::maps, s, m, shard.filters, {made});
          }
          needs(s, m, user).push_back(send(graph_.master, user, Cargo::maps, s, m, shard.filters, {at_master}));
        }
      }
    }
  }

  void deliver_images(int m) {
    int from = graph_.master;
    std::vector<int> here;  // after which `from` has them
    for (const int user : users_[0]) {
      if (user == graph_.master) continue;
      const int sent = send(from, user, Cargo::maps, 0, m, {0, trunk_[0].channels}, here);
      needs(0, m, user).push_back(sent);
      if (!plan_.relayed) continue;
      from = user;
      here = {sent};
    }
  }

  static std::size_t position(const std::vector<int>& nodes, int node) {
    return static_cast<std::size_t>(std::ranges::find(nodes, node) - nodes.begin());
  }

  void forward(int s, int m) {
    deliver_maps(s, m);
    const FilterRange all{0, trunk_[static_cast<std::size_t>(s)].conv.filters};
    const auto compute = [&](int node, FilterRange filters) {
      const int task = add({.kind = TaskKind::forward,
                            .node = node,
                            .stage = s,
                            .micro_batch = m,
                            .filters = filters,
                            .after = needs(s, m, node)});
      computed_[{s, m, node}] = task;
    };
    if (replicated(s)) {
      for (const int user : users_[static_cast<std::size_t>(s)]) compute(user, all);
    } else {
      for (const Assignment& shard : shards(s)) compute(shard.member, shard.filters);
    }
  }

  /// What a stage makes of a micro-batch is there when that has been computed; with batch norm, when all have been.
  void give_out(int s) {
    const int last = plan_.micro_batches - 1;
    for (auto& [key, task] : computed_) {
      const auto [stage, m, node] = key;
      if (stage != s) continue;
      if (normalises(s)) task = computed_.at({s, last, node});
      if (replicated(s)) needs(s + 1, m, node).push_back(task);
    }
  }

  void head() {
    const auto last = static_cast<int>(trunk_.size());
    std::vector<int> after;
    for (int m = 0; m < plan_.micro_batches; ++m) {
      const std::vector<int>& maps = needs(last, m, graph_.master);
      after.insert(after.end(), maps.begin(), maps.end());
    }
    head_ = add({.kind = TaskKind::head, .node = graph_.master, .stage = last, .after = std::move(after)});
  }

  /// Of the loss by the trunk's output.
  void deliver_gradient() {
    const auto last = static_cast<int>(trunk_.size());
    for (int m = 0; m < plan_.micro_batches; ++m) {
      for (const Assignment& shard : shards(last - 1)) {
        gradients_[{last, m, shard.member}] =
            shard.member == graph_.master
                ? std::vector<int>{head_}
                : std::vector<int>{send(graph_.master, shard.member, Cargo::gradient, last, m, shard.filters, {head_})};
      }
    }
  }

  /// Of all shards, from the gradient by X(s + 1) to that by X(s), which goes to the holders of stage s - 1.
  void backward_input(int s, int m) {
    std::vector<int> parts;
    for (const Assignment& shard : shards(s)) {
      std::vector<int> after;
      for (int other = 0; other < plan_.micro_batches; ++other) {
        if (other != m && !normalises(s)) continue;
        const std::vector<int>& there = gradients_.at({s + 1, other, shard.member});
        for (const int task : there) {
          if (std::ranges::find(after, task) == after.end()) after.push_back(task);
        }
      }
      parts.push_back(add({.kind = TaskKind::backward_input,
                           .node = shard.member,
                           .stage = s,
                           .micro_batch = m,
                           .filters = shard.filters,
                           .after = std::move(after)}));
      backward_[{s, shard.member}].push_back(parts.back());
    }
    if (s == 0) return;
    if (plan_.exchange == Exchange::ring) {
      for (const Assignment& owner : shards(s - 1)) sum_at(owner.member, s, m, owner.filters, parts);
      return;
    }
    const int total = sum_at(graph_.master, s, m, {0, trunk_[static_cast<std::size_t>(s)].channels}, parts);
    for (const Assignment& owner : shards(s - 1)) {
      if (owner.member == graph_.master) continue;
      gradients_[{s, m, owner.member}] = {
          send(graph_.master, owner.member, Cargo::gradient, s, m, owner.filters, {total})};
    }
  }

  /// The sum of all shards' parts of these channels, at a node.
  int sum_at(int node, int s, int m, FilterRange channels, const std::vector<int>& parts) {
    std::vector<int> arrived;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const int from = shards(s)[i].member;
      arrived.push_back(from == node ? parts[i] : send(from, node, Cargo::part, s, m, channels, {parts[i]}));
    }
    const int total = add({.kind = TaskKind::sum,
                           .node = node,
                           .stage = s,
                           .micro_batch = m,
                           .filters = channels,
                           .after = std::move(arrived)});
    gradients_[{s, m, node}] = {total};
    return total;
  }

  void backward_filters(int s) {
    for (const Assignment& shard : shards(s)) {
      filters_[shard.member].push_back(add({.kind = TaskKind::backward_filters,
                                            .node = shard.member,
                                            .stage = s,
                                            .filters = shard.filters,
                                            .after = backward_.at({s, shard.member})}));
    }
  }

  void update() {
    std::map<int, int> updated;
    for (const auto& [node, after] : filters_) {
      updated[node] = add({.kind = TaskKind::update, .node = node, .after = after});
    }
    for (int s = 0; s < static_cast<int>(trunk_.size()); ++s) {
      if (!replicated(s) || parameters_of(trunk_[static_cast<std::size_t>(s)], 1).empty()) continue;
      for (const Assignment& shard : shards(s)) {
        for (const int user : users_[static_cast<std::size_t>(s)]) {
          if (user == shard.member) continue;
          send(shard.member, user, Cargo::weights, s, 0, shard.filters, {updated.at(shard.member)});
        }
      }
    }
  }

  using Key = std::tuple<int, int, int>;  // stage, micro-batch, node

  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  TaskGraph graph_;
  int head_ = -1;
  std::vector<std::vector<int>> users_;
  std::map<Key, std::vector<int>> needs_;
  std::map<Key, int> computed_;
  std::map<Key, std::vector<int>> gradients_;  ///< what brings a node its channels of the gradient by X(stage)
  std::map<std::pair<int, int>, std::vector<int>> backward_;
  std::map<int, std::vector<int>> filters_;
};

}  // namespace

int master_of(const Plan& plan) {
  const auto members = static_cast<int>(plan.members.size());
  return !plan.members.empty() && plan.members.back() == "master" ? members - 1 : members;
}

TaskGraph make_task_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training) {
  if (plan.exchange == Exchange::thesis) return make_thesis_graph(plan, trunk, training);
  return Builder(plan, trunk).build(training);
}

std::vector<std::vector<int>> followers_of(const TaskGraph& graph) {
  std::vector<std::vector<int>> followers(graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const int before : graph.tasks[i].after)
      followers[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
  }
  return followers;
}

FilterRange own_filters(const Plan& plan, std::size_t stage, int node) {
  for (const Assignment& shard : plan.stages[stage].shards) {
    if (shard.member == node) return shard.filters;
  }
  return {};
}

FilterRange held_filters(const Plan& plan, const TaskGraph& graph, std::size_t stage, int node) {
  if (plan.exchange == Exchange::thesis && node == graph.master) return {0, filters_in(plan.stages[stage])};
  FilterRange held = own_filters(plan, stage, node);
  for (const Task& task : graph.tasks) {
    const bool here = task.node == node && task.kind == TaskKind::forward && task.stage == static_cast<int>(stage);
    if (here && task.filters.count > held.count) held = task.filters;
  }
  return held;
}

bool needs_credit(const Task& task, const TaskGraph& graph, const Plan& plan) {
  return task.kind == TaskKind::send && task.cargo == Cargo::part && task.to == graph.master &&
         plan.exchange != Exchange::ring;
}

NumberType wire_type(const Task& sent, const Plan& plan) {
  if (sent.cargo == Cargo::weights) return NumberType::fp32;
  const bool maps = sent.cargo == Cargo::maps || sent.cargo == Cargo::raw_maps;
  return plan.wire == NumberType::int8 && maps ? NumberType::bf16 : plan.wire;
}

std::size_t values_of(const Task& sent, const Plan& plan, const std::vector<Stage>& trunk) {
  const auto s = static_cast<std::size_t>(sent.stage);
  if (sent.cargo == Cargo::weights) {
    std::size_t values = 0;
    for (const ParameterSpec& each : parameters_of(trunk[s], sent.filters.count)) values += each.shape.size();
    return values;
  }
  const int samples = plan.batch / plan.micro_batches;
  if (sent.cargo == Cargo::raw_maps || sent.cargo == Cargo::raw_gradient) {
    return conv_shape(trunk[s], samples, sent.filters.count).size();
  }
  Shape shape = s < trunk.size() ? input_shape(trunk[s], samples) : output_shape(trunk.back(), samples, 1);
  shape.c = sent.filters.count;
  return shape.size();
}

double bytes_of(const Task& task, const Plan& plan, const std::vector<Stage>& trunk) {
  if (task.kind != TaskKind::send) return 0.0;
  return static_cast<double>(bytes_of(wire_type(task, plan), values_of(task, plan, trunk)));
}

}  // namespace convoy
