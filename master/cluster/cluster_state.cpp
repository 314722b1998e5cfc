// The state of a trunk on slaves: how it is asked for and given out, and how it moves when the plan changes.

#include <set>
#include <utility>

#include "master/cluster/cluster_trunk.hpp"

namespace convoy {

/// Its values may still have to come.
std::shared_ptr<ClusterTrunk::Part> ClusterTrunk::ask(std::size_t stage, int member, FilterRange filters) {
  auto part = std::make_shared<Part>();
  if (!is_slave(member)) {
    part->of = {stage, filters, node_->state(stage, filters)};
    return part;
  }
  part->of = {stage, filters, zero_state(stages_[stage], filters.count)};
  if (!has_parameters(stages_[stage])) return part;  // nothing to send
  part->reader.emplace(wire::values_of(part->of.state));
  const auto slave = static_cast<std::size_t>(member);
  send(slave, wire::Snapshot{static_cast<std::uint32_t>(stage), filters});
  coming_[slave].push_back(part);
  return part;
}

/// Until it is there: settle().
void ClusterTrunk::give(int node, const FilterState& part) {
  if (!is_slave(node)) return node_->set_state(part.stage, part.filters, part.state);
  const auto slave = static_cast<std::size_t>(node);
  ++owed_[slave];
  loads_[slave].push_back(part);
  if (loads_[slave].size() == 1) offer(slave);
}

/// The next state for the slave, by what it contains.
void ClusterTrunk::offer(std::size_t slave) {
  const FilterState& part = loads_[slave].front();
  send(slave,
       wire::Load{static_cast<std::uint32_t>(part.stage), part.filters, wire::contents_of(part.state, part.filters)});
}

/// What of it the slave has not.
void ClusterTrunk::take_wanted(std::size_t slave, const wire::Wanted& wanted) {
  if (loads_[slave].empty() || wanted.stage_index != loads_[slave].front().stage)
    broke_protocol(slave, "an unasked Wanted");
  const FilterState part = std::move(loads_[slave].front());
  loads_[slave].pop_front();
  const std::vector<FilterRange> blocks = wire::state_blocks(part.filters);
  std::vector<ShardState> missing;
  std::vector<std::span<const float>> values;
  for (const std::uint32_t block : wanted.blocks) {
    if (block >= blocks.size()) broke_protocol(slave, fmt::format("block {} of {}", block, blocks.size()));
    missing.push_back(wire::block_of(part.state, part.filters, blocks[block]));
  }
  for (const ShardState& each : missing) {
    const auto more = wire::values_of(each);
    values.insert(values.end(), more.begin(), more.end());
  }
  wire::send_values({.step = 0, .task = wanted.stage_index, .first = 0}, values,
                    [&](const wire::Envelope& piece) { roster_.send(slave, piece); });
  if (!loads_[slave].empty()) offer(slave);
}

void ClusterTrunk::begin_snapshot() {
  settle();
  snapshot_.clear();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const Assignment& shard : plan_.stages[s].shards) snapshot_.push_back(ask(s, shard.member, shard.filters));
  }
}

bool ClusterTrunk::snapshot_complete() const {
  return std::ranges::all_of(snapshot_, [](const auto& part) { return part->complete(); });
}

std::optional<std::vector<ShardState>> ClusterTrunk::take_snapshot() {
  if (snapshot_.empty() || !snapshot_complete()) return std::nullopt;
  std::vector<ShardState> states;
  for (const Stage& stage : stages_) states.push_back(zero_state(stage, stage.conv.filters));
  for (const auto& part : std::exchange(snapshot_, {})) {
    paste(part->of.state, part->of.filters, states[part->of.stage]);
  }
  return states;
}

std::vector<ShardState> ClusterTrunk::snapshot() {
  begin_snapshot();
  run_until([this] { return snapshot_complete(); });
  return *take_snapshot();
}

void ClusterTrunk::load(const std::vector<ShardState>& states) {
  invariant(states.size() == stages_.size(), "one state for each stage");
  settle();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (int node = 0; node <= static_cast<int>(slave_count()); ++node) {
      const FilterRange held = held_filters(plan_, node_->graph(), s, node);
      if (held.count > 0 && has_parameters(stages_[s])) give(node, {s, held, slice(states[s], held)});
    }
  }
  settle();
}

void ClusterTrunk::change_plan(const Plan& plan) {
  validate(plan, stages_);
  invariant(plan.members == plan_.members && plan.batch == plan_.batch, "a plan for the same members and batches");
  settle();
  // What a node has to hold and had no shard of: it is fetched from whose shard it was, before that drops it.
  std::vector<std::pair<int, std::shared_ptr<Part>>> moved;
  // In a ring slaves reach one another, and it goes straight from one to the other.
  std::vector<wire::StateMove> moves;
  std::set<int> movers;
  const TaskGraph graph = make_task_graph(plan, stages_);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (int node = 0; node < graph.nodes; ++node) {
      const FilterRange held = held_filters(plan, graph, s, node);
      for (const Assignment& shard : plan_.stages[s].shards) {
        const FilterRange part = common(held, shard.filters);
        if (part.count == 0 || shard.member == node || !has_parameters(stages_[s])) continue;
        if (plan.exchange == Exchange::ring && is_slave(node) && is_slave(shard.member)) {
          moves.push_back({static_cast<std::uint32_t>(s), part, shard.member, node});
          movers.insert({shard.member, node});
        } else {
          moved.emplace_back(node, ask(s, shard.member, part));
        }
      }
    }
  }
  run_until([this] { return std::ranges::all_of(coming_, [](const auto& parts) { return parts.empty(); }); });
  const std::vector<FilterState> kept = node_->own_states();
  plan_ = plan;
  execute(true, moves);
  for (const FilterState& each : kept) node_->set_state(each.stage, each.filters, each.state);
  for (const int mover : movers) {
    send(static_cast<std::size_t>(mover), wire::Move{});
    ++owed_[static_cast<std::size_t>(mover)];
  }
  for (const auto& [node, part] : moved) give(node, part->of);
  settle();
}

}  // namespace convoy
