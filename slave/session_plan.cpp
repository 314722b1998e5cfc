// The parts of Session that run between steps: a new plan, and states of filters that are loaded, moved and sent.

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "devices/registry.hpp"
#include "plan/node_memory.hpp"
#include "plan/plan.hpp"
#include "slave/session.hpp"
#include "wire/stream.hpp"

namespace convoy {
namespace {

/// How long the slave tries to connect to its peers.
constexpr auto kMeetingPatience = std::chrono::seconds(5);

/// The number of states of a node's filters that stay in memory: the last snapshot, to which the master goes back after
/// a loss, the snapshot that is being sent, and the initial state of the plan. Older states are never asked for.
constexpr std::size_t kStatesKept = 3;

std::size_t bytes_of_states(const Node& node) {
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < node.trunk().size(); ++s) bytes += state_bytes(node.trunk()[s], node.held(s).count);
  return bytes;
}

bool asks_for_changes(const wire::Snapshot& task) { return !task.gradients && task.type != NumberType::fp32; }

}  // namespace

void Session::on(const wire::Assign& task) {
  send(wire::Assigned{task.token});
  given_up_ = false;
  const bool same_trunk = node_ && node_->trunk() == task.trunk;
  const std::vector<FilterState> kept = task.keep && same_trunk ? node_->updated_states() : std::vector<FilterState>();
  node_.reset();
  early_.clear();
  coming_.clear();
  next_.reset();
  gradients_ = false;
  loaded_.clear();
  asked_.clear();
  states_.clear();
  moving_ = {};
  move_owed_ = false;
  end_transfer();
  in_step_ = false;
  step_ = 0;
  index_ = static_cast<int>(task.node);
  members_ = task.plan.members;
  const std::size_t left = expect_memory(task);
  std::vector<std::string> unreached = meet_peers(task);
  node_ = std::make_unique<Node>(task.plan, task.trunk, index_, &device_,
                                 Carrier{.send = [this](Parcel&& parcel) { carry(std::move(parcel)); },
                                         .grant = [](int) { invariant(false, "only the master grants credit"); }});
  if (unreached.empty()) unreached = link_.unreached(wire::Clock::now() + kMeetingPatience);
  if (!unreached.empty()) {
    node_.reset();
    given_up_ = true;
    return send(wire::Unreached{unreached});
  }
  for (const FilterState& each : kept) node_->set_state(each.stage, each.filters, each.state);
  cache_.bound_memory(std::min(left, kStatesKept * bytes_of_states(*node_)));
  moving_ = MovingStates(task.moves, index_, task.trunk, kept);
  count(watch_.restart(), 0, 0);
  finish();
}

/// Returns the bytes that the plan leaves of the memory in which the slave keeps states. Throws Error if the plan needs
/// more memory than there is.
std::size_t Session::expect_memory(const wire::Assign& task) const {
  constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();
  if (memory_ == 0) return kUnbounded;
  const TaskGraph graph = make_task_graph(task.plan, task.trunk);
  std::size_t taken = 0;
  for (std::size_t s = 0; s < task.trunk.size(); ++s) {
    const Box box = held_box(task.plan, graph, s, index_);
    const FilterRange held = box.channels;
    if (box.empty()) continue;
    const int samples = box.samples.count * task.plan.micro_batches;
    const std::size_t bytes = bytes_of({.stage = task.trunk[s],
                                        .filters = held,
                                        .batch = samples,
                                        .input_gradient = needs_input_gradient(task.trunk, s)});
    if (taken + bytes > memory_) {
      fail(
          "filters {} to {} of stage {} at batch {} need {}, but {} of the {} allowed are already taken; raise "
          "--memory or take a smaller --batch",
          held.first, held.first + held.count - 1, task.trunk[s].name, task.plan.batch, memory_text(bytes),
          memory_text(taken), memory_text(memory_));
    }
    taken += bytes;
  }
  if (device_.info().memory > 0) return kUnbounded;
  const std::size_t host = host_bytes(task.plan, task.trunk, graph, index_);
  if (taken + host > memory_) {
    fail(
        "values on their way need {} at batch {}, but the filters take {} of the {} allowed; raise --memory or take a "
        "smaller --batch",
        memory_text(host), task.plan.batch, memory_text(taken), memory_text(memory_));
  }
  return memory_ - taken - host;
}

/// Connects to the slaves that this node sends to. Returns the names of slaves that do not listen for other slaves.
std::vector<std::string> Session::meet_peers(const wire::Assign& task) {
  std::set<std::pair<int, Lane>> targets = slaves_sent_to(task.plan, task.trunk, index_);
  for (const wire::StateMove& move : task.moves) {
    if (move.from == index_) targets.emplace(move.to, Lane::prompt);
  }
  std::vector<wire::ClientLink::Peer> peers;
  std::vector<std::string> unreached;
  for (const auto& [target, lane] : targets) {
    const auto to = static_cast<std::size_t>(target);
    if (to >= task.peers.size() || task.peers[to].empty()) {
      if (unreached.empty() || unreached.back() != members_[to]) unreached.push_back(members_[to]);
      continue;
    }
    const std::string key = to < task.peer_keys.size() ? task.peer_keys[to] : "";
    peers.push_back({.node = target, .name = members_[to], .endpoint = task.peers[to], .key = key, .lane = lane});
  }
  link_.meet(task.token, index_, peers, task.client_keys);
  link_.share_cards(static_cast<int>(members_.size()));
  return unreached;
}

void Session::on(const wire::Load& task) {
  if (common(task.filters, node().held(task.stage_index)) != task.filters) {
    fail("not all of filters {} to {} of stage {} are computed by this slave", task.filters.first,
         task.filters.first + task.filters.count - 1, task.stage_index);
  }
  loading_.emplace(task, node().trunk()[task.stage_index], cache_);
  send(loading_->wanted());
  await_transfer();
  finish_load();
}

void Session::finish_load() {
  if (!loading_ || !loading_->complete()) return;
  // A state that a run begins with may serve other runs too, so it is also kept on disk.
  FilterState state = loading_->finish(cache_, !stepped_);
  const NumberType type = loading_->type();
  loading_.reset();
  node().set_state(state.stage, state.filters, state.state);
  const std::size_t stage = state.stage;
  loaded_.erase(stage);
  // Only where a replica keeps moments does it train by itself, so that its changes are asked for.
  if (type != NumberType::fp32 && node().trunk()[stage].moments > 0) {
    drop_moments(state.state);
    loaded_.emplace(stage, std::move(state));
  }
  finish();
}

void Session::on(const wire::Move&) {
  node();
  moving_.send(link_);
  move_owed_ = true;
  finish_move();
}

void Session::finish_move() {
  if (!move_owed_ || !moving_.complete()) return;
  move_owed_ = false;
  finish();
}

void Session::on(const wire::Snapshot& task) {
  if (in_step_ && !task.gradients) fail("a Snapshot came in the middle of a step");
  if (common(task.filters, node().own(task.stage_index)) != task.filters) {
    fail("not all of filters {} to {} of stage {} are in a shard of this slave", task.filters.first,
         task.filters.first + task.filters.count - 1, task.stage_index);
  }
  if (task.gradients && (!gradients_ || next_)) fail("gradients were asked for before a training step");
  if (asks_for_changes(task)) {
    const auto loaded = loaded_.find(task.stage_index);
    if (loaded == loaded_.end() || common(task.filters, loaded->second.filters) != task.filters) {
      fail("changes of filters {} to {} of stage {} were asked for before these were loaded in 16 bits",
           task.filters.first, task.filters.first + task.filters.count - 1, task.stage_index);
    }
  }
  asked_.push_back(task);
  answer_snapshots();
}

/// Answers Snapshots in their order. Gradients of a stage leave while those of the stages before it are computed.
void Session::answer_snapshots() {
  while (!asked_.empty()) {
    const wire::Snapshot& task = asked_.front();
    if (task.gradients && !node().gradients_known(task.stage_index)) return;
    put_state(task);
    asked_.pop_front();
  }
}

/// Puts the Pieces of a state, of changes, or of gradients, in the queue.
void Session::put_state(const wire::Snapshot& task) {
  ShardState state =
      task.gradients ? node().gradients(task.stage_index, task.filters) : node().state(task.stage_index, task.filters);
  if (!task.moments) drop_moments(state);
  if (asks_for_changes(task)) {
    const FilterState& from = loaded_.at(task.stage_index);
    const FilterRange part{task.filters.first - from.filters.first, task.filters.count};
    subtract_trained(node().trunk()[task.stage_index], slice(from.state, part), state);
  }
  wire::send_values({.step = 0, .task = task.stage_index, .first = 0},
                    wire::values_of(std::as_const(state), node().trunk()[task.stage_index], task.type),
                    [this](const wire::Envelope& piece) { states_.push_back(piece); });
  if (task.gradients || asks_for_changes(task) || !task.moments) return;
  // After a loss, the master loads the snapshot again, and blocks that are still in the cache need not travel.
  for (const FilterRange& block : wire::state_blocks(task.filters)) {
    const ShardState part = wire::block_of(state, task.filters, block);
    const auto values = wire::values_of(part);
    cache_.keep(wire::content_of(values), values);
  }
}

bool Session::send_state() {
  if (states_.empty()) return false;
  link_.send(wire::Channel::data, states_.front(), wire::Clock::now() + kTransferPatience);
  states_.pop_front();
  return true;
}

}  // namespace convoy
