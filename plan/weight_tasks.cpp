// The tasks of a graph that concern weights: their update, their gradients, and the sends of both.

#include "plan/graph_builder.hpp"

namespace convoy {

// ---- the update by the gradients of the step before ----------------------------------------------------------------

/// Where other members need the weights of the stage, each owner updates its filters and sends them. These updates come
/// first, so that the weights of later stages travel while earlier stages are computed.
void GraphBuilder::update_and_send(int s) {
  if (!has_parameters(stage(s)) || (!replicated(s) && !joins_gradients(s))) return;
  for (const Assignment& owner : owners_of(plan_of(s))) {
    const int done =
        add({.kind = TaskKind::update, .node = owner.member, .stage = s, .filters = owner.filters, .of_update = true});
    updated_[{s, owner.member}].push_back(done);
    for (const Computing& user : needs_.forward[s]) {
      const FilterRange both = common(user.box.channels, owner.filters);
      if (user.node == owner.member || both.count == 0) continue;
      updated_[{s, user.node}].push_back(send_weights(owner.member, user.node, Cargo::weights, s, {both, {}}, done));
    }
  }
}

/// Where no other member needs the weights, each member updates its filters right before it computes the stage.
void GraphBuilder::update_alone(int s) {
  if (!has_parameters(stage(s)) || replicated(s) || joins_gradients(s)) return;
  for (const Assignment& owner : owners_of(plan_of(s))) {
    updated_[{s, owner.member}].push_back(
        add({.kind = TaskKind::update, .node = owner.member, .stage = s, .filters = owner.filters, .of_update = true}));
  }
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
      arrived = send_weights(tile.member, owner.member, Cargo::filter_part, s, {both, tile.samples}, found);
    }
    filter_parts_[{s, owner.member}].push_back(arrived);
  }
}

/// Sends weights or their gradients; in a star, slaves reach one another through the master. Receivers of the same
/// values share one send to the master. Returns the send that arrives at `to`.
int GraphBuilder::send_weights(int from, int to, Cargo cargo, int s, const Box& box, int after) {
  const auto add_send = [&](int sender, int receiver, int before) {
    const int sent = send(sender, receiver, cargo, s, 0, box, {before});
    graph_.tasks[static_cast<std::size_t>(sent)].of_update = cargo == Cargo::weights;
    return sent;
  };
  if (plan_.exchange == Exchange::ring || from == graph_.master) return add_send(from, to, after);
  const std::tuple key{from, static_cast<int>(cargo), s, box.channels.first, box.channels.count};
  const auto there = at_master_.find(key);
  const int at_master = there != at_master_.end() ? there->second : add_send(from, graph_.master, after);
  at_master_[key] = at_master;
  return to == graph_.master ? at_master : add_send(graph_.master, to, at_master);
}

/// Each owner adds up the gradients of its filters in the order of the rows.
void GraphBuilder::sum_filters(int s) {
  for (const Assignment& owner : owners_of(plan_of(s))) {
    add({.kind = TaskKind::filter_sum,
         .node = owner.member,
         .stage = s,
         .filters = owner.filters,
         .after = filter_parts_.at({s, owner.member})});
  }
}

}  // namespace convoy
