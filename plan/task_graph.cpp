#include "plan/task_graph.hpp"

#include <algorithm>

#include "core/shard_state.hpp"
#include "plan/graph_builder.hpp"
#include "plan/thesis_graph.hpp"

namespace convoy {
namespace {

bool contains(const std::vector<int>& list, int value) { return std::ranges::find(list, value) != list.end(); }

std::size_t position(const std::vector<int>& nodes, int node) {
  return static_cast<std::size_t>(std::ranges::find(nodes, node) - nodes.begin());
}

}  // namespace

void append_tasks(std::vector<int>& to, const std::vector<int>& more) {
  for (const int task : more) {
    if (!contains(to, task)) to.push_back(task);
  }
}

GraphBuilder::GraphBuilder(const Plan& plan, const std::vector<Stage>& trunk, bool training)
    : plan_(plan), trunk_(trunk), training_(training), outputs_(outputs_of(trunk)), needed_(needed_gradients(trunk)) {
  graph_.master = master_of(plan);
  graph_.nodes = graph_.master + 1;
  // A forward pass without training needs only the input of the main head.
  if (!training) outputs_ = {outputs_.back()};
  needs_ = find_needs(plan, trunk, outputs_, graph_.master);
}

TaskGraph GraphBuilder::build() {
  const auto stages = static_cast<int>(trunk_.size());
  for (int s = 0; s < stages && training_; ++s) send_updates(s);
  for (int s = 0; s < stages; ++s) {
    if (training_) update_here(s);
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
    const bool behind = s + 1 < stages && joins_gradients(s + 1);
    if (joins_statistics(s)) {
      // The slopes of a batch norm travel while the gradients of the weights behind it are computed.
      const Joining last = find_slopes(s, batch_norms(stage(s)) - 1);
      if (behind) backward_filters(s + 1);
      join_slopes(s, last);
    } else if (behind) {
      backward_filters(s + 1);
    }
    for (int m = 0; m < plan_.micro_batches; ++m) backward_input(s, m);
  }
  // Gradients of weights that travel come early, so that they travel while the stages before are computed.
  if (joins_gradients(0)) backward_filters(0);
  // The others come last, so that a node computes them while no other node waits for it.
  for (int s = stages - 1; s >= 0; --s) {
    if (needed_[s] && !frozen(s) && !joins_gradients(s)) backward_filters(s);
  }
  return std::move(graph_);
}

Box GraphBuilder::whole(int s) const {
  const int channels = s == Source::kImages ? trunk_[0].channels : stage(s).conv.filters;
  return {{0, channels}, {0, micro_batch_size(plan_)}};
}

/// Returns the stages that a stage reads and that need a gradient with respect to their maps.
std::vector<int> GraphBuilder::stages_read(int s) const {
  std::vector<int> values = values_read(trunk_, s);
  std::erase_if(values, [this](int value) { return value < 0 || !needed_[value]; });
  return values;
}

// ---- tasks ---------------------------------------------------------------------------------------------------------

int GraphBuilder::add(Task task) {
  graph_.tasks.push_back(std::move(task));
  return static_cast<int>(graph_.tasks.size()) - 1;
}

int GraphBuilder::send(int from, int to, Cargo cargo, int s, int micro_batch, const Box& box, std::vector<int> after) {
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

/// Adds the tasks that bring a micro-batch's maps of a stage, once computed, to all nodes that need them.
void GraphBuilder::deliver_maps(int value, int m) {
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
void GraphBuilder::deliver_images(int m) {
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

/// Adds a pass of a stage at a node, for a micro-batch.
int GraphBuilder::add_pass(TaskKind kind, int s, int m, const Computing& each, std::vector<int> after) {
  return add({.kind = kind,
              .node = each.node,
              .stage = s,
              .micro_batch = m,
              .filters = each.box.channels,
              .samples = each.box.samples,
              .after = std::move(after)});
}

void GraphBuilder::forward(int s, int m) {
  if (needs_.forward[s].empty()) return;
  const std::vector<int> values = values_read(trunk_, s);
  for (const int value : values) deliver_maps(value, m);
  for (const Computing& each : needs_.forward[s]) {
    std::vector<int> after;
    for (const int value : values) append_tasks(after, arrivals(value, m, each.node));
    append_tasks(after, updated_[{s, each.node}]);
    // The shard normalises the batch with the last micro-batch, so this task waits for all others, in whatever order
    // they are.
    for (int other = 0; normalises(s) && m + 1 == plan_.micro_batches && other < m; ++other) {
      append_tasks(after, {computed_.at({s, other, each.node})});
    }
    computed_[{s, m, each.node}] = add_pass(TaskKind::forward, s, m, each, std::move(after));
  }
}

/// A micro-batch's maps are ready when the stage has computed it; with batch norm, when it has computed all
/// micro-batches, and all rows' statistics are joined.
void GraphBuilder::give_out(int s) {
  const int last = plan_.micro_batches - 1;
  for (const Computing& each : needs_.forward[s]) {
    for (int m = 0; m < plan_.micro_batches; ++m) {
      int& task = computed_.at({s, m, each.node});
      if (normalises(s)) task = computed_.at({s, last, each.node});
      if (replicated(s)) arrivals(s, m, each.node).push_back(task);
    }
  }
  if (joins_statistics(s) && !needs_.forward[s].empty()) join_moments(s);
}

void GraphBuilder::head() {
  for (int m = 0; m < plan_.micro_batches; ++m) {
    std::vector<int> after;
    for (const int output : outputs_) append_tasks(after, arrivals(output, m, graph_.master));
    heads_.push_back(add({.kind = TaskKind::head,
                          .node = graph_.master,
                          .stage = outputs_.back(),
                          .micro_batch = m,
                          .samples = {0, micro_batch_size(plan_)},
                          .after = std::move(after)}));
  }
}

/// Sends the gradient of the loss with respect to the trunk's outputs.
void GraphBuilder::deliver_gradients() {
  for (const int output : outputs_) {
    if (!needed_[output]) continue;
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
void GraphBuilder::backward_input(int s, int m) {
  const std::vector<int> values = stages_read(s);
  for (const Computing& each : needs_.backward[s]) {
    std::vector<int> after;
    if (everywhere(s)) after.push_back(part_.at({s, m, each.node}));
    if (joins_statistics(s)) after.push_back(normalised_back_.at({s, each.node}));
    for (int other = 0; other < plan_.micro_batches && !everywhere(s) && !joins_statistics(s); ++other) {
      if (other == m || normalises(s)) append_tasks(after, {gradients_.at({s, other, each.node})});
    }
    for (const int value : values) {
      const auto before = part_.find({value, m, each.node});
      if (before != part_.end()) append_tasks(after, {before->second});
    }
    // The shard finds the gradients of the whole batch with the first micro-batch, so the others wait for it.
    if (normalises(s) && m > 0) append_tasks(after, {backward_tasks_.at({s, each.node}).front()});
    const int task = add_pass(TaskKind::backward_input, s, m, each, std::move(after));
    backward_tasks_[{s, each.node}].push_back(task);
    for (const int value : values) part_[{value, m, each.node}] = task;
  }
  for (const int value : values) {
    if (needs_.first_reader.at(value) == s && !everywhere(value)) collect(value, m);
  }
}

/// Adds up all nodes' parts of the gradient with respect to a stage's maps, for the tiles of that stage.
void GraphBuilder::collect(int value, int m) {
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
int GraphBuilder::sum_at(int node, int value, int m, const Box& box) {
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

TaskGraph make_task_graph(const Plan& plan, const std::vector<Stage>& trunk, bool training) {
  if (plan.exchange == Exchange::thesis) return make_thesis_graph(plan, trunk, training);
  return GraphBuilder(plan, trunk, training).build();
}

}  // namespace convoy
