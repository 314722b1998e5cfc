// The tasks of a graph that join the statistics of batch norms, where stages are cut along samples.

#include "plan/graph_builder.hpp"

namespace convoy {

/// The layers from one batch norm to the next are computed when the joint moments of the one are known.
void GraphBuilder::join_moments(int s) {
  std::map<int, std::vector<int>> ready;
  for (const Tile& tile : tiles(s)) ready[tile.member] = {computed_.at({s, plan_.micro_batches - 1, tile.member})};
  for (int norm = 0; norm < batch_norms(stage(s)); ++norm) {
    ready = take_statistics(find_statistics(s, norm, Cargo::moments, ready));
  }
  for (const auto& [node, after] : ready) {
    for (int m = 0; m < plan_.micro_batches; ++m) computed_[{s, m, node}] = after.front();
  }
}

/// The slopes of the stage's last batch norm need the gradients of all micro-batches.
GraphBuilder::Joining GraphBuilder::find_slopes(int s, int norm) {
  std::map<int, std::vector<int>> ready;
  for (const Tile& tile : tiles(s)) {
    for (int m = 0; m < plan_.micro_batches; ++m) {
      append_tasks(ready[tile.member], {gradients_.at({s, m, tile.member})});
    }
  }
  return find_statistics(s, norm, Cargo::slopes, ready);
}

/// Joins the slopes of all batch norms, the last first.
void GraphBuilder::join_slopes(int s, Joining last) {
  std::map<int, std::vector<int>> ready = take_statistics(last);
  for (int norm = last.norm - 1; norm >= 0; --norm) {
    ready = take_statistics(find_statistics(s, norm, Cargo::slopes, ready));
  }
  for (const auto& [node, after] : ready) normalised_back_[{s, node}] = after.front();
}

/// Each holder finds the statistics of its samples after the tasks `ready`, and sends them: in a ring to all holders of
/// the same channels, in a star to the master.
GraphBuilder::Joining GraphBuilder::find_statistics(int s, int norm, Cargo cargo,
                                                    const std::map<int, std::vector<int>>& ready) {
  const std::vector<Tile> all = tiles(s);
  const bool direct = plan_.exchange == Exchange::ring;
  Joining joining{.stage = s, .norm = norm, .cargo = cargo, .arrived = {}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tile& tile = all[i];
    const int found = add({.kind = TaskKind::statistics,
                           .node = tile.member,
                           .stage = s,
                           .filters = tile.filters,
                           .samples = tile.samples,
                           .cargo = cargo,
                           .norm = norm,
                           .after = ready.at(tile.member)});
    const auto give = [&](int to, FilterRange filters) {
      int arrived = found;
      if (to != tile.member) {
        arrived = send(tile.member, to, cargo, s, 0, {filters, tile.samples}, {found});
        graph_.tasks[arrived].norm = norm;
      }
      joining.arrived[to].push_back(arrived);
    };
    if (!direct) give(graph_.master, tile.filters);
    // The receivers take turns, beginning after the sender, so that not all senders start with the same receiver.
    for (std::size_t turn = 1; direct && turn <= all.size(); ++turn) {
      const Tile& other = all[(i + turn) % all.size()];
      const FilterRange both = common(tile.filters, other.filters);
      if (both.count > 0) give(other.member, both);
    }
  }
  return joining;
}

/// Joins the statistics of all rows, in a star at the master, which sends them to the holders. Returns, by holder, the
/// task that takes the joint statistics.
std::map<int, std::vector<int>> GraphBuilder::take_statistics(const Joining& joining) {
  const int s = joining.stage;
  const bool direct = plan_.exchange == Exchange::ring;
  Task task{.kind = TaskKind::join_statistics, .stage = s, .cargo = joining.cargo, .norm = joining.norm, .after = {}};
  std::map<int, int> joint;
  for (const auto& [node, arrived] : joining.arrived) {
    task.node = node;
    task.filters = direct ? tile_of(plan_of(s), node).filters : whole(s).channels;
    task.after = arrived;
    joint[node] = add(task);
  }
  std::map<int, std::vector<int>> taken;
  task.kind = TaskKind::take_statistics;
  for (const Tile& tile : tiles(s)) {
    task.node = tile.member;
    task.filters = tile.filters;
    task.samples = tile.samples;
    if (direct || tile.member == graph_.master) {
      task.after = {joint.at(tile.member)};
    } else {
      const Cargo cargo = joining.cargo == Cargo::moments ? Cargo::joint_moments : Cargo::joint_slopes;
      const int sent = send(graph_.master, tile.member, cargo, s, 0, {tile.filters, {}}, {joint.at(graph_.master)});
      graph_.tasks[sent].norm = joining.norm;
      task.after = {sent};
    }
    taken[tile.member] = {add(task)};
  }
  return taken;
}

}  // namespace convoy
