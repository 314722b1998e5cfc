// The state of a trunk on slaves: the master collects it, distributes it, and moves it when the plan changes.

#include <algorithm>
#include <set>
#include <utility>

#include "master/cluster/cluster_trunk.hpp"

namespace convoy {

/// Returns the state of filters of a node's shard, or what is wished instead. Those of a slave arrive later.
std::shared_ptr<ComingState> ClusterTrunk::ask(std::size_t stage, int node, FilterRange filters, const Wish& wish) {
  if (is_slave(node)) {
    const auto slave = static_cast<std::size_t>(node);
    const bool exact = !wish.gradients && wish.since == nullptr;
    return states_->ask(slave, {.stage_index = static_cast<std::uint32_t>(stage),
                                .filters = filters,
                                .gradients = wish.gradients,
                                .type = exact ? NumberType::fp32 : states_type_,
                                .moments = wish.moments});
  }
  auto own = std::make_shared<ComingState>();
  own->of = {stage, filters, wish.gradients ? node_->gradients(stage, filters) : node_->state(stage, filters)};
  if (!wish.moments) drop_moments(own->of.state);
  if (wish.since != nullptr) subtract_trained(stages_[stage], slice((*wish.since)[stage], filters), own->of.state);
  return own;
}

/// Gives a node the state of filters. The node holds it after the next settle().
void ClusterTrunk::give(int node, const FilterState& state, NumberType type) {
  if (!is_slave(node)) return node_->set_state(state.stage, state.filters, state.state);
  const auto slave = static_cast<std::size_t>(node);
  ++owed_[slave];
  waited_ = {};
  states_->give(slave, state, type);
}

void ClusterTrunk::begin_snapshot(bool moments) {
  end_step();
  apply_update();
  collect({.moments = moments});
}

void ClusterTrunk::begin_changes(const std::vector<ShardState>& from, bool moments) {
  invariant(changes_count(), "members keep what they were loaded with");
  end_step();
  apply_update();
  collect({.since = &from, .moments = moments});
}

void ClusterTrunk::begin_gradients() {
  invariant(training_ && given_ == plan_.micro_batches,
            "gradients are those of a training step that was given all samples");
  invariant(own_ == nullptr || settled(), "the master's node knows its gradients when the step has ended");
  collect({.gradients = true});
}

/// Asks the owners of all filters for their states, or for their gradients in the order in which these are known.
void ClusterTrunk::collect(const Wish& wish) {
  collects_ = wish;
  snapshot_.clear();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const std::size_t s = wish.gradients ? stages_.size() - 1 - i : i;
    for (const Assignment& owner : owners_of(plan_.stages[s])) {
      snapshot_.push_back(ask(s, owner.member, owner.filters, wish));
    }
  }
}

bool ClusterTrunk::snapshot_complete() const {
  return std::ranges::all_of(snapshot_, [](const auto& part) { return part->complete(); });
}

std::optional<std::vector<ShardState>> ClusterTrunk::take_snapshot() {
  if (snapshot_.empty() || !snapshot_complete()) return std::nullopt;
  std::vector<ShardState> states;
  for (Stage stage : stages_) {
    if (collects_.gradients || !collects_.moments) stage.moments = 0;
    states.push_back(zero_state(stage, stage.conv.filters));
  }
  for (const auto& part : std::exchange(snapshot_, {})) {
    paste(part->of.state, part->of.filters, states[part->of.stage]);
  }
  return states;
}

std::vector<ShardState> ClusterTrunk::snapshot() {
  begin_snapshot(true);
  run_until([this] { return snapshot_complete(); });
  return *take_snapshot();
}

std::optional<Broken> ClusterTrunk::broken() const {
  std::map<std::uint32_t, long> all = broken_;
  for (const std::uint32_t stage : node_->broken_stages()) all.try_emplace(stage, given(own_step_).update);
  const auto first =
      std::ranges::min_element(all, {}, [](const auto& each) { return std::pair(each.second, each.first); });
  if (first == all.end()) return std::nullopt;
  return Broken{.layer = stages_[first->first].name, .step = first->second};
}

void ClusterTrunk::verify_with(Verifier& verifier) {
  verifier_ = &verifier;
  verifier_->begin_plan(plan_, *node_);
}

/// Asks for the state of the tile to verify in the coming step, if there is one. The answer travels while the step
/// runs.
void ClusterTrunk::begin_verification(const Pass& pass) {
  const VerifiableTile* tile = verifier_ != nullptr ? verifier_->begin_step(pass) : nullptr;
  if (tile == nullptr) return;
  apply_update();
  before_ = ask(tile->stage, tile->node, tile->filters, {});
}

/// Verifies the tile of the step that has just ended, if there is one. The slabs of the master's node still hold the
/// step.
void ClusterTrunk::end_verification() {
  const VerifiableTile* tile = verifier_ != nullptr ? verifier_->tile() : nullptr;
  if (tile == nullptr) return;
  apply_update();
  const auto before = std::exchange(before_, nullptr);
  const auto after = ask(tile->stage, tile->node, tile->filters, {});
  run_until([&] { return before->complete() && after->complete(); });
  if (const auto wrong = verifier_->judge(before->of.state, after->of.state)) {
    throw PeerLost(wrong->slave, describe(*wrong), PeerLost::Reason::wrong);
  }
}

void ClusterTrunk::begin_load(const std::vector<ShardState>& states) {
  invariant(states.size() == stages_.size(), "there is one state for each stage");
  end_step();
  settle();
  update_.reset();
  if (changes_count()) rebalance();
  broken_.clear();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (int node = 0; node <= static_cast<int>(slave_count()); ++node) {
      const FilterRange held = held_filters(plan_, node_->graph(), s, node);
      if (held.count > 0 && has_parameters(stages_[s])) give(node, {s, held, slice(states[s], held)}, states_type_);
    }
  }
}

namespace {

/// Returns whether a node has the state of these filters of a stage after the steps of a plan.
bool keeps(const Plan& plan, std::size_t stage, int node, FilterRange filters) {
  return std::ranges::any_of(updated_filters(plan, stage, node),
                             [&](const FilterRange& updated) { return common(updated, filters) == filters; });
}

}  // namespace

void ClusterTrunk::change_plan(const Plan& plan) {
  validate(plan, stages_);
  invariant(plan.members == plan_.members && plan.batch == plan_.batch, "the new plan has the same members and batch");
  apply_update();
  // States that a node takes over through the master. They are fetched before the former holder drops them.
  std::vector<std::pair<int, std::shared_ptr<ComingState>>> moved;
  // States that slaves send each other. In a ring they are connected to each other.
  std::vector<wire::StateMove> moves;
  std::set<int> movers;
  const TaskGraph graph = make_task_graph(plan, stages_);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (int node = 0; node < graph.nodes; ++node) {
      const FilterRange held = held_filters(plan, graph, s, node);
      for (const Assignment& owner : owners_of(plan_.stages[s])) {
        const FilterRange part = common(held, owner.filters);
        if (part.count == 0 || !has_parameters(stages_[s]) || keeps(plan_, s, node, part)) continue;
        if (plan.exchange == Exchange::ring && is_slave(node) && is_slave(owner.member)) {
          moves.push_back({static_cast<std::uint32_t>(s), part, owner.member, node});
          movers.insert({owner.member, node});
        } else {
          moved.emplace_back(node, ask(s, owner.member, part, {}));
        }
      }
    }
  }
  run_until([this] { return !states_->awaits_any(); });
  const std::vector<FilterState> kept = node_->updated_states();
  plan_ = plan;
  execute(true, moves);
  for (const FilterState& each : kept) node_->set_state(each.stage, each.filters, each.state);
  for (const int mover : movers) {
    send(static_cast<std::size_t>(mover), wire::Move{});
    ++owed_[mover];
  }
  waited_ = {};
  for (const auto& [node, part] : moved) give(node, part->of);
  settle();
  moving_ = false;
}

}  // namespace convoy
