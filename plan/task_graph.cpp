#include "plan/task_graph.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "plan/thesis_graph.hpp"

namespace convoy {
namespace {

/// A node that computes filters of a stage.
struct Computing {
  int node = 0;
  FilterRange filters;
};

/// Builds the graph stage by stage. A stage's index stands for its maps, Source::kImages for the images.
class Builder {
 public:
  Builder(const Plan& plan, const std::vector<Stage>& trunk, bool training)
      : plan_(plan), trunk_(trunk), training_(training), outputs_(outputs_of(trunk)) {
    graph_.master = master_of(plan);
    graph_.nodes = graph_.master + 1;
    // A forward pass without training needs only the input of the main head.
    if (!training) outputs_ = {outputs_.back()};
    find_needs();
  }

  TaskGraph build() {
    const auto stages = static_cast<int>(trunk_.size());
    for (int s = 0; s < stages; ++s) {
      for (int m = 0; m < plan_.micro_batches; ++m) forward(s, m);
      give_out(s);
    }
    for (const int output : outputs_) {
      for (int m = 0; m < plan_.micro_batches; ++m) deliver_maps(output, m);
    }
    head();
    if (!training_) return std::move(graph_);
    add({.kind = TaskKind::head_update, .node = graph_.master, .stage = outputs_.back(), .after = heads_});
    deliver_gradients();
    for (int s = stages - 1; s >= 0; --s) {
      for (int m = 0; m < plan_.micro_batches; ++m) backward_input(s, m);
    }
    // The filter gradients come last, so that a node computes them while no other node waits for it.
    for (int s = stages - 1; s >= 0; --s) backward_filters(s);
    update();
    return std::move(graph_);
  }

 private:
  using Shards = std::vector<Assignment>;
  using Ranges = std::map<int, FilterRange>;  // by node

  const Stage& stage(int s) const { return trunk_[s]; }
  const Shards& shards(int s) const { return plan_.stages[s].shards; }
  bool replicated(int s) const { return plan_.stages[s].replicated; }
  /// Returns whether each node that reads the stage's maps computes it, backward from its own part of the gradient.
  bool everywhere(int s) const { return shards(s).empty(); }
  bool normalises(int s) const { return has_batch_norm(stage(s)); }
  std::vector<int> values_read(int s) const {
    std::vector<int> values;
    for (const Sources& read : reads_of(trunk_, static_cast<std::size_t>(s))) {
      for (const Source& source : read) {
        if (source.stage != Source::kZeros && !contains(values, source.stage)) values.push_back(source.stage);
      }
    }
    return values;
  }
  /// Returns the stages whose maps a stage reads. The images are left out because they have no gradient.
  std::vector<int> stages_read(int s) const {
    std::vector<int> values = values_read(s);
    std::erase(values, Source::kImages);
    return values;
  }
  static bool contains(const std::vector<int>& list, int value) { return std::ranges::find(list, value) != list.end(); }

  // ---- which node computes and needs what --------------------------------------------------------------------------

  /// The stages are visited from last to first, so that all readers of a stage's maps are known before the stage.
  void find_needs() {
    const std::size_t stages = trunk_.size();
    forward_.resize(stages);
    backward_.resize(stages);
    for (const int output : outputs_) needed_[output][graph_.master] = {0, stage(output).conv.filters};
    for (int s = static_cast<int>(stages) - 1; s >= 0; --s) {
      if (needed_[s].empty()) continue;  // no node needs its maps
      find_computing(s);
      for (const Computing& each : forward_[s]) need(s, each, needed_);
      for (const Computing& each : backward_[s]) need(s, each, parts_);
    }
    for (int s = 0; s < static_cast<int>(stages); ++s) {
      for (const int value : values_read(s)) {
        first_reader_.try_emplace(value, s);
        for (const Computing& each : forward_[s]) {
          const bool takes = needed_[value].contains(each.node);  // the stage may read it only for other nodes
          if (takes && !contains(users_[value], each.node)) users_[value].push_back(each.node);
        }
      }
    }
    for (const int output : outputs_) users_[output] = {graph_.master};
  }

  void find_computing(int s) {
    std::vector<Computing>& forward = forward_[s];
    std::vector<Computing>& backward = backward_[s];
    if (everywhere(s)) {
      for (const auto& [node, filters] : needed_.at(s)) forward.push_back({node, filters});
      for (const auto& [node, filters] : parts_[s]) backward.push_back({node, needed_.at(s).at(node)});
      return;
    }
    const FilterRange all{0, stage(s).conv.filters};
    for (const Assignment& shard : shards(s)) {
      forward.push_back({shard.member, replicated(s) ? all : shard.filters});
      backward.push_back({shard.member, shard.filters});
    }
    if (!replicated(s)) return;
    for (const auto& [node, filters] : needed_.at(s)) {
      if (std::ranges::find(forward, node, &Computing::node) == forward.end()) forward.push_back({node, all});
    }
  }

  /// Adds the channels that a node reads to compute filters of a stage, and for which it computes gradients.
  void need(int s, const Computing& computing, std::map<int, Ranges>& of) const {
    for (const Read& read : reads_for(trunk_, static_cast<std::size_t>(s), computing.filters)) {
      if (read.stage == Source::kZeros) continue;
      FilterRange& range = of[read.stage][computing.node];
      range = hull(range, read.channels);
    }
  }

  // ---- tasks ------------------------------------------------------------------------------------------------------

  int add(Task task) {
    graph_.tasks.push_back(std::move(task));
    return static_cast<int>(graph_.tasks.size()) - 1;
  }

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

  static void append(std::vector<int>& to, const std::vector<int>& more) {
    for (const int task : more) {
      if (!contains(to, task)) to.push_back(task);
    }
  }

  /// Returns the tasks after which a node may read the maps: sends that bring them, and its own computations.
  std::vector<int>& arrivals(int value, int micro_batch, int node) { return arrivals_[{value, micro_batch, node}]; }

  /// Adds the tasks that bring a micro-batch's maps of a stage, once computed, to all nodes that need them.
  void deliver_maps(int value, int m) {
    if (!delivered_.insert({value, m}).second) return;
    if (value == Source::kImages) return deliver_images(m);
    if (replicated(value)) return;  // each node that needs the maps computes them
    const std::vector<int>& users = users_[value];
    const Ranges& needed = needed_.at(value);
    for (const Assignment& shard : shards(value)) {
      const int made = computed_.at({value, m, shard.member});
      FilterRange others;  // channels that the master must receive in a star
      for (const int user : users) {
        if (user != shard.member) others = hull(others, common(shard.filters, needed.at(user)));
      }
      int at_master = -1;
      // The receivers take turns, beginning after the sender, so that not all senders start with the same receiver.
      for (std::size_t i = 0; i < users.size(); ++i) {
        const int user = users[(i + position(users, shard.member) + 1) % users.size()];
        const FilterRange wanted = common(shard.filters, needed.at(user));
        if (wanted.count == 0) continue;
        if (user == shard.member) {
          arrivals(value, m, user).push_back(made);
        } else if (plan_.exchange == Exchange::ring || shard.member == graph_.master) {
          arrivals(value, m, user).push_back(send(shard.member, user, Cargo::maps, value, m, wanted, {made}));
        } else {
          if (at_master < 0) at_master = send(shard.member, graph_.master, Cargo::maps, value, m, others, {made});
          const bool there = user == graph_.master;
          arrivals(value, m, user)
              .push_back(there ? at_master : send(graph_.master, user, Cargo::maps, value, m, wanted, {at_master}));
        }
      }
    }
  }

  void deliver_images(int m) {
    int from = graph_.master;
    std::vector<int> here;  // the tasks after which `from` has the images
    for (const int user : users_[Source::kImages]) {
      if (user == graph_.master) continue;
      const int sent = send(from, user, Cargo::maps, Source::kImages, m, {0, trunk_[0].channels}, here);
      arrivals(Source::kImages, m, user).push_back(sent);
      if (!plan_.relayed) continue;
      from = user;
      here = {sent};
    }
  }

  static std::size_t position(const std::vector<int>& nodes, int node) {
    return static_cast<std::size_t>(std::ranges::find(nodes, node) - nodes.begin());
  }

  void forward(int s, int m) {
    if (forward_[s].empty()) return;
    const std::vector<int> values = values_read(s);
    for (const int value : values) deliver_maps(value, m);
    for (const Computing& each : forward_[s]) {
      std::vector<int> after;
      for (const int value : values) append(after, arrivals(value, m, each.node));
      computed_[{s, m, each.node}] = add({.kind = TaskKind::forward,
                                          .node = each.node,
                                          .stage = s,
                                          .micro_batch = m,
                                          .filters = each.filters,
                                          .after = std::move(after)});
    }
  }

  /// A micro-batch's maps are ready when the stage has computed it; with batch norm, when it has computed all
  /// micro-batches.
  void give_out(int s) {
    const int last = plan_.micro_batches - 1;
    for (const Computing& each : forward_[s]) {
      for (int m = 0; m < plan_.micro_batches; ++m) {
        int& task = computed_.at({s, m, each.node});
        if (normalises(s)) task = computed_.at({s, last, each.node});
        if (replicated(s)) arrivals(s, m, each.node).push_back(task);
      }
    }
  }

  void head() {
    for (int m = 0; m < plan_.micro_batches; ++m) {
      std::vector<int> after;
      for (const int output : outputs_) append(after, arrivals(output, m, graph_.master));
      heads_.push_back(add({.kind = TaskKind::head,
                            .node = graph_.master,
                            .stage = outputs_.back(),
                            .micro_batch = m,
                            .after = std::move(after)}));
    }
  }

  /// Sends the gradient of the loss with respect to the trunk's outputs.
  void deliver_gradients() {
    for (const int output : outputs_) {
      for (int m = 0; m < plan_.micro_batches; ++m) {
        for (const Assignment& shard : shards(output)) {
          const int node = shard.member;
          const int head = heads_[m];
          gradients_[{output, m, node}] =
              node == graph_.master ? head
                                    : send(graph_.master, node, Cargo::gradient, output, m, shard.filters, {head});
        }
      }
    }
  }

  /// From the gradient with respect to a stage's maps, computes a node's parts of the gradients with respect to the
  /// stage's inputs. Parts from several stages are added up at the node in a fixed order, the last stage first.
  void backward_input(int s, int m) {
    const std::vector<int> values = stages_read(s);
    for (const Computing& each : backward_[s]) {
      std::vector<int> after;
      if (everywhere(s)) after.push_back(part_.at({s, m, each.node}));
      for (int other = 0; other < plan_.micro_batches && !everywhere(s); ++other) {
        if (other == m || normalises(s)) append(after, {gradients_.at({s, other, each.node})});
      }
      for (const int value : values) {
        const auto before = part_.find({value, m, each.node});
        if (before != part_.end()) append(after, {before->second});
      }
      const int task = add({.kind = TaskKind::backward_input,
                            .node = each.node,
                            .stage = s,
                            .micro_batch = m,
                            .filters = each.filters,
                            .after = std::move(after)});
      backward_tasks_[{s, each.node}].push_back(task);
      for (const int value : values) part_[{value, m, each.node}] = task;
    }
    for (const int value : values) {
      if (first_reader_.at(value) == s && !everywhere(value)) collect(value, m);
    }
  }

  /// Adds up all nodes' parts of the gradient with respect to a stage's maps, for the holders of its filters.
  void collect(int value, int m) {
    std::vector<Assignment> far;  // owners whose gradient includes parts of other nodes
    for (const Assignment& owner : shards(value)) {
      const bool alone = std::ranges::all_of(parts_[value], [&](const auto& part) {
        return part.first == owner.member || common(part.second, owner.filters).count == 0;
      });
      if (plan_.exchange == Exchange::ring || (alone && owner.member != graph_.master)) {
        sum_at(owner.member, value, m, owner.filters);
      } else {
        far.push_back(owner);
      }
    }
    if (far.empty()) return;
    const int last = far.back().filters.first + far.back().filters.count;
    const int total = sum_at(graph_.master, value, m, {far[0].filters.first, last - far[0].filters.first});
    for (const Assignment& owner : far) {
      if (owner.member == graph_.master) continue;
      gradients_[{value, m, owner.member}] =
          send(graph_.master, owner.member, Cargo::gradient, value, m, owner.filters, {total});
    }
  }

  /// Adds the tasks that sum the parts of these channels at a node, in the order of the nodes. Returns the sum.
  int sum_at(int node, int value, int m, FilterRange channels) {
    std::vector<int> arrived;
    for (const auto& [from, range] : parts_[value]) {
      const FilterRange both = common(range, channels);
      if (both.count == 0) continue;
      const int part = part_.at({value, m, from});
      arrived.push_back(from == node ? part : send(from, node, Cargo::part, value, m, both, {part}));
    }
    const int total = add({.kind = TaskKind::sum,
                           .node = node,
                           .stage = value,
                           .micro_batch = m,
                           .filters = channels,
                           .after = std::move(arrived)});
    gradients_[{value, m, node}] = total;
    return total;
  }

  void backward_filters(int s) {
    for (const Assignment& shard : shards(s)) {
      filters_[shard.member].push_back(add({.kind = TaskKind::backward_filters,
                                            .node = shard.member,
                                            .stage = s,
                                            .filters = shard.filters,
                                            .after = backward_tasks_.at({s, shard.member})}));
    }
  }

  void update() {
    std::map<int, int> updated;
    for (const auto& [node, after] : filters_) {
      updated[node] = add({.kind = TaskKind::update, .node = node, .after = after});
    }
    for (int s = 0; s < static_cast<int>(trunk_.size()); ++s) {
      if (!replicated(s)) continue;
      for (const Assignment& shard : shards(s)) {
        for (const Computing& user : forward_[s]) {
          if (user.node == shard.member) continue;
          send(shard.member, user.node, Cargo::weights, s, 0, shard.filters, {updated.at(shard.member)});
        }
      }
    }
  }

  using Key = std::tuple<int, int, int>;  // stage, micro-batch, node

  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  bool training_;
  std::vector<int> outputs_;
  TaskGraph graph_;
  std::vector<int> heads_;                        ///< by micro-batch
  std::vector<std::vector<Computing>> forward_;   ///< by stage
  std::vector<std::vector<Computing>> backward_;  ///< by stage
  std::map<int, Ranges> needed_;                  ///< channels of each stage's maps that a node reads
  std::map<int, Ranges> parts_;              ///< channels of each stage's maps for which a node computes a gradient
  std::map<int, std::vector<int>> users_;    ///< nodes that read each stage's maps
  std::map<int, int> first_reader_;          ///< of each stage's maps; in the backward pass it is the last
  std::set<std::pair<int, int>> delivered_;  ///< stage, micro-batch
  std::map<Key, std::vector<int>> arrivals_;
  std::map<Key, int> computed_;
  std::map<Key, int> part_;       ///< the last task at the node that adds to its part
  std::map<Key, int> gradients_;  ///< the task after which a node has the gradient of its own filters' maps
  std::map<std::pair<int, int>, std::vector<int>> backward_tasks_;
  std::map<int, std::vector<int>> filters_;
};

}  // namespace

TaskGraph make_task_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training) {
  if (plan.exchange == Exchange::thesis) return make_thesis_graph(plan, trunk, training);
  return Builder(plan, trunk, training).build();
}

}  // namespace convoy
