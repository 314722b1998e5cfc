#include "plan/task_graph.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/shard_state.hpp"
#include "plan/needs.hpp"
#include "plan/thesis_graph.hpp"

namespace convoy {
namespace {

/// Builds the graph stage by stage. A stage's index stands for its maps, Source::kImages for the images.
class Builder {
 public:
  Builder(const Plan& plan, const std::vector<Stage>& trunk, bool training)
      : plan_(plan), trunk_(trunk), training_(training), outputs_(outputs_of(trunk)) {
    graph_.master = master_of(plan);
    graph_.nodes = graph_.master + 1;
    // A forward pass without training needs only the input of the main head.
    if (!training) outputs_ = {outputs_.back()};
    needs_ = find_needs(plan, trunk, outputs_, graph_.master);
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
    for (int s = stages - 1; s >= 0; --s) sum_filters(s);
    update();
    return std::move(graph_);
  }

 private:
  const Stage& stage(int s) const { return trunk_[s]; }
  std::vector<Tile> tiles(int s) const { return tiles_of(plan_.stages[s]); }
  bool replicated(int s) const { return plan_.stages[s].replicated; }
  bool everywhere(int s) const { return convoy::everywhere(plan_.stages[s]); }
  bool normalises(int s) const { return has_batch_norm(stage(s)); }
  /// Returns whether several members hold weights of the stage and find parts of their gradients.
  bool joins_gradients(int s) const { return has_several_rows(plan_.stages[s]) && has_parameters(stage(s)); }
  Box whole(int s) const {
    const int channels = s == Source::kImages ? trunk_[0].channels : stage(s).conv.filters;
    return {{0, channels}, {0, micro_batch_size(plan_)}};
  }
  /// Returns the stages whose maps a stage reads. The images are left out because they have no gradient.
  std::vector<int> stages_read(int s) const {
    std::vector<int> values = values_read(trunk_, s);
    std::erase(values, Source::kImages);
    return values;
  }
  static bool contains(const std::vector<int>& list, int value) { return std::ranges::find(list, value) != list.end(); }

  // ---- tasks ------------------------------------------------------------------------------------------------------

  int add(Task task) {
    graph_.tasks.push_back(std::move(task));
    return static_cast<int>(graph_.tasks.size()) - 1;
  }

  int send(int from, int to, Cargo cargo, int s, int micro_batch, const Box& box, std::vector<int> after) {
    return add({.kind = TaskKind::send,
                .node = from,
                .stage = s,
                .micro_batch = micro_batch,
                .filters = box.channels,
                .samples = box.samples,
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
    const std::vector<int>& users = needs_.users[value];
    const Boxes& needed = needs_.read.at(value);
    for (const Tile& tile : tiles(value)) {
      const int made = computed_.at({value, m, tile.member});
      Box others;  // the part of the tile that the master must receive in a star
      for (const int user : users) {
        if (user != tile.member) others = hull(others, common(tile.box(), needed.at(user)));
      }
      int at_master = -1;
      // The receivers take turns, beginning after the sender, so that not all senders start with the same receiver.
      for (std::size_t i = 0; i < users.size(); ++i) {
        const int user = users[(i + position(users, tile.member) + 1) % users.size()];
        const Box wanted = common(tile.box(), needed.at(user));
        if (wanted.empty()) continue;
        if (user == tile.member) {
          arrivals(value, m, user).push_back(made);
        } else if (plan_.exchange == Exchange::ring || tile.member == graph_.master) {
          arrivals(value, m, user).push_back(send(tile.member, user, Cargo::maps, value, m, wanted, {made}));
        } else {
          if (at_master < 0) at_master = send(tile.member, graph_.master, Cargo::maps, value, m, others, {made});
          const bool there = user == graph_.master;
          arrivals(value, m, user)
              .push_back(there ? at_master : send(graph_.master, user, Cargo::maps, value, m, wanted, {at_master}));
        }
      }
    }
  }

  /// Sends each node the samples of the images that it needs. A node that relays images also receives the samples of
  /// the nodes behind it.
  void deliver_images(int m) {
    std::vector<int> users = needs_.users[Source::kImages];
    std::erase(users, graph_.master);
    int from = graph_.master;
    std::vector<int> here;  // the tasks after which `from` has the images
    for (std::size_t i = 0; i < users.size(); ++i) {
      Box box = whole(Source::kImages);
      box.samples = needs_.read.at(Source::kImages).at(users[i]).samples;
      for (std::size_t behind = i + 1; plan_.relayed && behind < users.size(); ++behind) {
        box.samples = hull(box.samples, needs_.read.at(Source::kImages).at(users[behind]).samples);
      }
      const int sent = send(from, users[i], Cargo::maps, Source::kImages, m, box, here);
      arrivals(Source::kImages, m, users[i]).push_back(sent);
      if (!plan_.relayed) continue;
      from = users[i];
      here = {sent};
    }
  }

  static std::size_t position(const std::vector<int>& nodes, int node) {
    return static_cast<std::size_t>(std::ranges::find(nodes, node) - nodes.begin());
  }

  void forward(int s, int m) {
    if (needs_.forward[s].empty()) return;
    const std::vector<int> values = values_read(trunk_, s);
    for (const int value : values) deliver_maps(value, m);
    for (const Computing& each : needs_.forward[s]) {
      std::vector<int> after;
      for (const int value : values) append(after, arrivals(value, m, each.node));
      computed_[{s, m, each.node}] = add({.kind = TaskKind::forward,
                                          .node = each.node,
                                          .stage = s,
                                          .micro_batch = m,
                                          .filters = each.box.channels,
                                          .samples = each.box.samples,
                                          .after = std::move(after)});
    }
  }

  /// A micro-batch's maps are ready when the stage has computed it; with batch norm, when it has computed all
  /// micro-batches.
  void give_out(int s) {
    const int last = plan_.micro_batches - 1;
    for (const Computing& each : needs_.forward[s]) {
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
                            .samples = {0, micro_batch_size(plan_)},
                            .after = std::move(after)}));
    }
  }

  /// Sends the gradient of the loss with respect to the trunk's outputs.
  void deliver_gradients() {
    for (const int output : outputs_) {
      for (int m = 0; m < plan_.micro_batches; ++m) {
        for (const Tile& tile : tiles(output)) {
          const int node = tile.member;
          const int head = heads_[m];
          gradients_[{output, m, node}] =
              node == graph_.master ? head : send(graph_.master, node, Cargo::gradient, output, m, tile.box(), {head});
        }
      }
    }
  }

  /// From the gradient with respect to a stage's maps, computes a node's parts of the gradients with respect to the
  /// stage's inputs. Parts from several stages are added up at the node in a fixed order, the last stage first.
  void backward_input(int s, int m) {
    const std::vector<int> values = stages_read(s);
    for (const Computing& each : needs_.backward[s]) {
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
                            .filters = each.box.channels,
                            .samples = each.box.samples,
                            .after = std::move(after)});
      backward_tasks_[{s, each.node}].push_back(task);
      for (const int value : values) part_[{value, m, each.node}] = task;
    }
    for (const int value : values) {
      if (needs_.first_reader.at(value) == s && !everywhere(value)) collect(value, m);
    }
  }

  /// Adds up all nodes' parts of the gradient with respect to a stage's maps, for the tiles of that stage.
  void collect(int value, int m) {
    std::vector<Tile> far;  // tiles whose gradient includes parts of other nodes
    Box far_box;
    for (const Tile& tile : tiles(value)) {
      const bool alone = std::ranges::all_of(needs_.parts[value], [&](const auto& part) {
        return part.first == tile.member || common(part.second, tile.box()).empty();
      });
      if (plan_.exchange == Exchange::ring || (alone && tile.member != graph_.master)) {
        sum_at(tile.member, value, m, tile.box());
      } else {
        far.push_back(tile);
        far_box = hull(far_box, tile.box());
      }
    }
    if (far.empty()) return;
    const int total = sum_at(graph_.master, value, m, far_box);
    for (const Tile& tile : far) {
      if (tile.member == graph_.master) continue;
      gradients_[{value, m, tile.member}] =
          send(graph_.master, tile.member, Cargo::gradient, value, m, tile.box(), {total});
    }
  }

  /// Adds the tasks that sum the parts of this box at a node, in the order of the nodes. Returns the sum.
  int sum_at(int node, int value, int m, const Box& box) {
    std::vector<int> arrived;
    for (const auto& [from, part_box] : needs_.parts[value]) {
      const Box both = common(part_box, box);
      if (both.empty()) continue;
      const int part = part_.at({value, m, from});
      arrived.push_back(from == node ? part : send(from, node, Cargo::part, value, m, both, {part}));
    }
    const int total = add({.kind = TaskKind::sum,
                           .node = node,
                           .stage = value,
                           .micro_batch = m,
                           .filters = box.channels,
                           .samples = box.samples,
                           .after = std::move(arrived)});
    gradients_[{value, m, node}] = total;
    return total;
  }

  // ---- weights ----------------------------------------------------------------------------------------------------

  /// Each holder of filters finds the gradients of its samples.
  void backward_filters(int s) {
    for (const Tile& tile : tiles(s)) {
      const int found = add({.kind = TaskKind::backward_filters,
                             .node = tile.member,
                             .stage = s,
                             .filters = tile.filters,
                             .samples = tile.samples,
                             .after = backward_tasks_.at({s, tile.member})});
      if (joins_gradients(s)) {
        send_filter_parts(s, tile, found);
      } else {
        gradients_known_[tile.member].push_back(found);
      }
    }
  }

  /// Sends the owners their filters' gradients of a tile's samples.
  void send_filter_parts(int s, const Tile& tile, int found) {
    for (const Assignment& owner : owners_of(plan_.stages[s])) {
      const FilterRange both = common(tile.filters, owner.filters);
      if (both.count == 0) continue;
      int arrived = found;
      if (owner.member != tile.member) {
        arrived = send_weights(tile.member, owner.member, Cargo::filter_part, s, {both, tile.samples}, found);
      }
      filter_parts_[{s, owner.member}].push_back(arrived);
    }
  }

  /// Sends weights or their gradients; in a star, slaves reach one another through the master. Receivers of the same
  /// values share one send to the master. Returns the send that arrives at `to`.
  int send_weights(int from, int to, Cargo cargo, int s, const Box& box, int after) {
    const bool direct = plan_.exchange == Exchange::ring || from == graph_.master;
    if (direct) return send(from, to, cargo, s, 0, box, {after});
    const std::tuple key{from, static_cast<int>(cargo), s, box.channels.first, box.channels.count};
    const auto there = at_master_.find(key);
    const int at_master =
        there != at_master_.end() ? there->second : send(from, graph_.master, cargo, s, 0, box, {after});
    at_master_[key] = at_master;
    return to == graph_.master ? at_master : send(graph_.master, to, cargo, s, 0, box, {at_master});
  }

  /// Each owner adds up the gradients of its filters in the order of the rows.
  void sum_filters(int s) {
    if (!joins_gradients(s)) return;
    for (const Assignment& owner : owners_of(plan_.stages[s])) {
      gradients_known_[owner.member].push_back(add({.kind = TaskKind::filter_sum,
                                                    .node = owner.member,
                                                    .stage = s,
                                                    .filters = owner.filters,
                                                    .after = filter_parts_.at({s, owner.member})}));
    }
  }

  /// Each owner updates its filters and sends the weights to the other nodes that hold them.
  void update() {
    std::map<int, int> updated;
    for (const auto& [node, after] : gradients_known_) {
      updated[node] = add({.kind = TaskKind::update, .node = node, .after = after});
    }
    for (int s = 0; s < static_cast<int>(trunk_.size()); ++s) {
      if (!replicated(s) && !joins_gradients(s)) continue;
      for (const Assignment& owner : owners_of(plan_.stages[s])) {
        for (const Computing& user : needs_.forward[s]) {
          const FilterRange both = common(user.box.channels, owner.filters);
          if (user.node == owner.member || both.count == 0) continue;
          send_weights(owner.member, user.node, Cargo::weights, s, {both, {}}, updated.at(owner.member));
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
  std::vector<int> heads_;  ///< by micro-batch
  Needs needs_;
  std::set<std::pair<int, int>> delivered_;  ///< stage, micro-batch
  std::map<Key, std::vector<int>> arrivals_;
  std::map<Key, int> computed_;
  std::map<Key, int> part_;       ///< the last task at the node that adds to its part
  std::map<Key, int> gradients_;  ///< the task after which a node has the gradient of its own filters' maps
  std::map<std::pair<int, int>, std::vector<int>> backward_tasks_;
  /// The sends of weights and their gradients to the master of a star: by sender, cargo, stage, first filter and filters.
  std::map<std::tuple<int, int, int, int, int>, int> at_master_;
  /// By stage and owner, the tasks after which the owner has each part of its filters' gradients, in the order of rows.
  std::map<std::pair<int, int>, std::vector<int>> filter_parts_;
  /// By node, the tasks after which it has the gradients to update by.
  std::map<int, std::vector<int>> gradients_known_;
};

}  // namespace

TaskGraph make_task_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training) {
  if (plan.exchange == Exchange::thesis) return make_thesis_graph(plan, trunk, training);
  return Builder(plan, trunk, training).build();
}

}  // namespace convoy
