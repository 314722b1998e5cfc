// The tasks of a graph that concern weights: their update, their gradients, and the sends of both.

#include <algorithm>

#include "plan/graph_builder.hpp"

namespace convoy {

// ---- the update by the gradients of the step before ----------------------------------------------------------------

/// Where several members hold weights of a stage, its owners send the sums of gradients to holders that update by them,
/// unless the sums left early.
/// An owner of which another member needs the weights updates its filters, and sends it those. These tasks come first,
/// in the order in which the next forward pass needs the weights, so that those of later stages travel while earlier
/// stages are computed.
void GraphBuilder::send_updates(int s) {
  if (!has_trained_parameters(stage(s)) || (!replicated(s) && !joins_gradients(s))) return;
  for (const auto& [owner, user, filters] : deliveries(s, true)) {
    std::vector<int>& sums = sums_[{s, user}];
    if (!sends_sums_early(s)) sums.push_back(send_weights(owner, user, Cargo::filter_sum, s, {filters, {}}, {}));
  }
  for (const auto& [owner, user, filters] : deliveries(s, false)) {
    update(s, owner);
    const int done = updated_.at({s, owner}).front();
    updated_[{s, user}].push_back(send_weights(owner, user, Cargo::weights, s, {filters, {}}, {done}));
  }
}

/// Returns what owners send other members for the update of a stage: sums of gradients, or the updated weights.
std::vector<GraphBuilder::Delivery> GraphBuilder::deliveries(int s, bool of_sums) const {
  std::vector<Delivery> all;
  for (const Assignment& owner : owners_of(plan_of(s))) {
    for (const Computing& user : needs_.forward[s]) {
      const FilterRange both = common(user.box.channels, owner.filters);
      const bool takes = joins_gradients(s) && takes_sums(plan_, owner.member, user.node);
      if (user.node == owner.member || both.count == 0 || takes != of_sums) continue;
      all.push_back({owner.member, user.node, both});
    }
  }
  return all;
}

/// Members whose weights nobody waits for update them right before they compute the stage.
void GraphBuilder::update_here(int s) {
  if (!has_trained_parameters(stage(s))) return;
  for (const Tile& tile : tiles(s)) update(s, tile.member);
}

/// Adds a member's update of its tile, unless it is there. Filters that neither the member owns nor whose sum it is
/// sent are replaced by the weights that it is sent.
void GraphBuilder::update(int s, int member) {
  const auto sums = sums_.find({s, member});
  const bool owns =
      std::ranges::find(owners_of(plan_of(s)), member, &Assignment::member) != owners_of(plan_of(s)).end();
  if ((!owns && sums == sums_.end()) || !updates_.insert({s, member}).second) return;
  const int done = add({.kind = TaskKind::update,
                        .node = member,
                        .stage = s,
                        .filters = tile_of(plan_of(s), member).filters,
                        .of_update = true,
                        .after = sums != sums_.end() ? sums->second : std::vector<int>()});
  std::vector<int>& updated = updated_[{s, member}];
  updated.insert(updated.begin(), done);
}

// ---- gradients -----------------------------------------------------------------------------------------------------

/// Each holder of filters finds the gradients of its samples.
void GraphBuilder::backward_filters(int s) {
  for (const Tile& tile : tiles(s)) {
    const int found = add({.kind = TaskKind::backward_filters,
                           .node = tile.member,
                           .stage = s,
                           .filters = tile.filters,
                           .samples = tile.samples,
                           .after = backward_tasks_.at({s, tile.member})});
    if (joins_gradients(s)) send_filter_parts(s, tile, found);
  }
  if (joins_gradients(s)) sum_filters(s);
}

/// Sends the owners their filters' gradients of a tile's samples.
void GraphBuilder::send_filter_parts(int s, const Tile& tile, int found) {
  for (const Assignment& owner : owners_of(plan_of(s))) {
    const FilterRange both = common(tile.filters, owner.filters);
    if (both.count == 0) continue;
    int arrived = found;
    if (owner.member != tile.member) {
      arrived = send_weights(tile.member, owner.member, Cargo::filter_part, s, {both, tile.samples}, {found});
    }
    filter_parts_[{s, owner.member}].push_back(arrived);
  }
}

/// Sends weights or their gradients; in a star, slaves reach one another through the master. Receivers of the same
/// values share one send to the master. Returns the send that arrives at `to`.
int GraphBuilder::send_weights(int from, int to, Cargo cargo, int s, const Box& box, std::vector<int> after) {
  const auto add_send = [&](int sender, int receiver, std::vector<int> before) {
    const int sent = send(sender, receiver, cargo, s, 0, box, std::move(before));
    const bool early = cargo == Cargo::filter_sum && sends_sums_early(s);
    graph_.tasks[sent].of_update = cargo != Cargo::filter_part && !early;
    return sent;
  };
  if (plan_.exchange == Exchange::ring || from == graph_.master) return add_send(from, to, std::move(after));
  const std::tuple key{from, static_cast<int>(cargo), s, box.channels.first, box.channels.count};
  const auto there = at_master_.find(key);
  const int at_master = there != at_master_.end() ? there->second : add_send(from, graph_.master, std::move(after));
  at_master_[key] = at_master;
  return to == graph_.master ? at_master : add_send(graph_.master, to, {at_master});
}

/// Each owner adds up the gradients of its filters in the order of the rows. Early sums leave at once.
void GraphBuilder::sum_filters(int s) {
  std::map<int, int> sums;  // by owner
  for (const Assignment& owner : owners_of(plan_of(s))) {
    sums[owner.member] = add({.kind = TaskKind::filter_sum,
                              .node = owner.member,
                              .stage = s,
                              .filters = owner.filters,
                              .after = filter_parts_.at({s, owner.member})});
  }
  if (!sends_sums_early(s)) return;
  for (const auto& [owner, user, filters] : deliveries(s, true)) {
    send_weights(owner, user, Cargo::filter_sum, s, {filters, {}}, {sums.at(owner)});
  }
}

}  // namespace convoy
