#include "master/cluster/cluster_trunk.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "core/stopwatch.hpp"
#include "core/text.hpp"

namespace convoy {
namespace {

/// Where other slaves reach a slave: without a host for one on the master's machine, which each slave knows by the name
/// under which it reaches the master.
std::string peer_endpoint(const SlaveInfo& slave) {
  if (slave.peer_port == 0) return "";
  const bool here = slave.address.starts_with("127.") || slave.address == "::1";
  return fmt::format("{}:{}", here ? "" : slave.address, slave.peer_port);
}

/// How long after a link between slaves broke both may turn out to live.
constexpr std::chrono::seconds kLinkPatience{6};

/// What one run's slaves know one another by.
std::string make_token() {
  std::random_device entropy;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", entropy(), entropy(), entropy(), entropy());
}

}  // namespace

ClusterTrunk::ClusterTrunk(std::vector<Stage> stages, Plan plan, Roster& roster, Device* own,
                           std::chrono::milliseconds patience, Rebalancing rebalancing,
                           std::function<void(const Plan&)> on_plan)
    : stages_(std::move(stages)),
      plan_(std::move(plan)),
      roster_(roster),
      own_(own),
      patience_(patience),
      owed_(roster.slaves().size(), 0),
      rebalancer_(std::move(rebalancing)),
      on_plan_(std::move(on_plan)) {
  validate(plan_, stages_);
  invariant(!stages_.empty(), "a cluster needs stages to share");
  invariant(plan_.members.size() == slave_count() + (own != nullptr ? 1 : 0), "the plan's members are those at hand");
  for (const SlaveInfo& slave : roster_.slaves()) {
    if (plan_.wire != NumberType::fp32 && !slave.sixteen_bits) {
      fail("slave {} cannot send and receive {}; run this release of Convoy on it, or leave out --wire", slave.name,
           to_string(plan_.wire));
    }
  }
  for (const std::string& member : plan_.members) times_.push_back({.member = member});
  execute(false);
}

/// Has everybody take their part in the plan; `keep`: with the state of the filters that stay with them, and what slaves
/// are to send one another.
void ClusterTrunk::execute(bool keep, const std::vector<wire::StateMove>& moves) {
  ready_ = false;
  step_ = 0;
  longest_ = 0.0;
  unreached_.clear();
  unreached_at_ = wire::Deadline::max();
  states_.emplace(roster_, stages_);
  assign(keep, moves);
  node_ = std::make_unique<Node>(plan_, stages_, static_cast<int>(slave_count()), own_,
                                 Carrier{.send = [this](Parcel&& parcel) { carry(parcel); },
                                         .grant =
                                             [this](int to) {
                                               if (is_slave(to)) send(static_cast<std::size_t>(to), wire::Credit{1});
                                             }});
  traffic_ = traffic_of(node_->graph(), plan_, stages_);
  settle();
  if (!unreached_.empty()) throw PeerLost("", unreached_, PeerLost::Reason::unreachable);
  ready_ = true;
  rebalancer_.begin(plan_);
}

/// Tells every slave which node it is.
void ClusterTrunk::assign(bool keep, const std::vector<wire::StateMove>& moves) {
  token_ = make_token();
  assigned_.assign(slave_count(), false);
  wire::Assign assign{.trunk = stages_, .plan = plan_, .node = 0, .token = token_, .peers = {}, .keep = keep};
  assign.moves = moves;
  for (const SlaveInfo& slave : roster_.slaves()) {
    assign.peers.push_back(peer_endpoint(slave));
    assign.peer_keys.push_back(slave.peer_key);
  }
  for (std::size_t slave = 0; slave < slave_count(); ++slave) {
    assign.node = static_cast<std::uint32_t>(slave);
    send(slave, assign);
  }
  expect_all();
}

// ---- messages ------------------------------------------------------------------------------------------------------

void ClusterTrunk::send(std::size_t slave, const wire::Message& message) { roster_.send(slave, {message, {}}); }

void ClusterTrunk::send_all(const wire::Message& message) {
  for (std::size_t slave = 0; slave < slave_count(); ++slave) send(slave, message);
}

void ClusterTrunk::carry(const Parcel& parcel) {
  roster_.send(static_cast<std::size_t>(parcel.to),
               {wire::Piece{.step = step_, .task = static_cast<std::uint32_t>(parcel.task), .first = parcel.first},
                wire::Payload(parcel.bytes.owner, parcel.bytes.values)});
}

void ClusterTrunk::expect_all() {
  for (int& owed : owed_) ++owed;
}

std::vector<std::size_t> ClusterTrunk::awaited() const {
  std::vector<std::size_t> slaves;
  for (std::size_t i = 0; i < owed_.size(); ++i) {
    if (owed_[i] > 0 || states_->awaits(i)) slaves.push_back(i);
  }
  return slaves;
}

void ClusterTrunk::broke_protocol(std::size_t slave, const std::string& what) const {
  const std::string& name = roster_.slaves()[slave].name;
  throw PeerLost(name, fmt::format("slave {} broke the protocol: {}", name, printable(what, kMostWords)));
}

void ClusterTrunk::run_until(const std::function<bool()>& over) {
  while (!over()) {
    // What has come goes before the next task of the master's own share: slaves may wait for what it brings about.
    auto arrival = roster_.receive({}, patience_, wire::Clock::now());
    if (!arrival && node_->work()) continue;
    if (!arrival) {
      const Stopwatch waiting;
      arrival = roster_.receive(awaited(), patience(), unreached_at_);
      if (own_ != nullptr) times_.back().wait += waiting.seconds();
    }
    if (!arrival) throw PeerLost("", unreached_, PeerLost::Reason::unreachable);
    take(arrival->slave, arrival->envelope);
  }
}

/// The first steps compile kernels and fill caches. Later ones show how long a task takes: a slave that is silent for
/// three times the longest, and the time between two signs of life, hangs. Not so soon that one on a busy machine would.
std::chrono::milliseconds ClusterTrunk::patience() const {
  constexpr std::uint64_t kFirst = 4;
  constexpr double kMultiple = 3.0;
  constexpr auto kLeast = std::chrono::seconds(3);  // whose process stands still is noticed sooner, as gone
  if (step_ <= kFirst || longest_ <= 0.0) return patience_;
  const std::chrono::milliseconds measured(static_cast<long>(1e3 * (kMultiple * longest_ + 1.0)));
  return std::min(patience_, std::max<std::chrono::milliseconds>(kLeast, measured));
}

void ClusterTrunk::settle() {
  run_until([this] { return node_->finished() && std::ranges::none_of(owed_, [](int owed) { return owed > 0; }); });
}

/// What a slave sent is at fault for an Error that it leads to, unless a member was lost meanwhile, or the master's own device.
template <class Call>
void ClusterTrunk::judged(std::size_t slave, const Call& call) const {
  try {
    call();
  } catch (const PeerLost&) {
    throw;
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error& error) {
    broke_protocol(slave, error.what());
  }
}

void ClusterTrunk::take(std::size_t slave, const wire::Envelope& envelope) {
  const std::string& name = roster_.slaves()[slave].name;
  if (const auto* assigned = std::get_if<wire::Assigned>(&envelope.message)) {
    if (assigned->token == token_) assigned_[slave] = true;
    return;
  }
  if (!assigned_[slave]) return;
  if (const auto* failed = std::get_if<wire::Failed>(&envelope.message)) {
    const std::string why = fmt::format("slave {} failed: {}", name, printable(failed->reason, kMostWords));
    if (!ready_) throw PeerLost(name, why, PeerLost::Reason::cannot_hold);
    throw PeerLost(name, why);
  }
  if (const auto* missed = std::get_if<wire::Unreached>(&envelope.message)) {
    if (!ready_) --owed_[slave];
    // A slave that is dead is soon lost for the master too: only a link between two that live is a matter of the plan.
    if (ready_ && unreached_.empty()) unreached_at_ = wire::Clock::now() + kLinkPatience;
    unreached_ += fmt::format("{}slave {} cannot connect to {}", unreached_.empty() ? "" : "; ", name,
                              fmt::join(missed->peers, ", "));
    return;
  }
  const auto* piece = std::get_if<wire::Piece>(&envelope.message);
  const bool asked = owed_[slave] > 0 || (piece != nullptr && states_->awaits(slave));
  if (!asked) broke_protocol(slave, "an unasked " + wire::name_of(envelope.message));
  if (const auto* squares = std::get_if<wire::Squares>(&envelope.message)) {
    squares_[slave] = squares->sum;
  } else if (piece != nullptr) {
    judged(slave, [&] { take_piece(slave, *piece, envelope.payload); });
  } else if (const auto* wanted = std::get_if<wire::Wanted>(&envelope.message)) {
    judged(slave, [&] { states_->take_wanted(slave, *wanted); });
  } else if (const auto* done = std::get_if<wire::Done>(&envelope.message)) {
    --owed_[slave];
    times_[slave].compute += done->compute;
    times_[slave].transfer += done->transfer;
    times_[slave].wait += done->wait;
    if (!training_ || done->stages.size() != stages_.size()) return;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      rebalancer_.count(slave, s, done->stages[s]);
      longest_ = std::max(longest_, done->stages[s]);
    }
  } else {
    broke_protocol(slave, wire::name_of(envelope.message) + " where Piece or Done was due");
  }
}

void ClusterTrunk::take_piece(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload) {
  if (piece.step == 0 && states_->awaits(slave)) return states_->take(slave, piece, payload);
  if (step_ == 0 || piece.step != step_) fail("a Piece of step {} in step {}", piece.step, step_);
  const auto owner = std::make_shared<wire::Payload>(payload);
  node_->receive(static_cast<int>(slave), static_cast<int>(piece.task), piece.first,
                 {owner, std::as_const(*owner).bytes()});
}

// ---- a step --------------------------------------------------------------------------------------------------------

void ClusterTrunk::begin(const Tensor& images, const Pass& pass) {
  settle();
  count_own_seconds();
  training_ = pass.training;
  ++step_;
  squares_.assign(slave_count(), std::nullopt);
  send_all(wire::Step{.number = step_, .pass = pass});
  expect_all();
  node_->begin(pass, &images);
  given_ = 0;
}

std::optional<SampleRange> ClusterTrunk::next_outputs() {
  if (given_ == plan_.micro_batches) return std::nullopt;
  run_until([this] { return node_->outputs_ready() > given_; });
  const int count = plan_.batch / plan_.micro_batches;
  return SampleRange{count * given_++, count};
}

void ClusterTrunk::backward(const std::vector<const Tensor*>& gradients, SampleRange samples) {
  const int count = plan_.batch / plan_.micro_batches;
  for (int first = samples.first; first < samples.first + samples.count; first += count) {
    node_->give_gradients(gradients, first / count);
  }
}

double ClusterTrunk::gradient_squares() {
  const auto has_shards = [this](int node) {
    return std::ranges::any_of(plan_.stages, [node](const StagePlan& stage) {
      return std::ranges::any_of(stage.shards, [node](const Assignment& shard) { return shard.member == node; });
    });
  };
  const auto nodes = static_cast<int>(slave_count()) + 1;
  run_until([&] {
    for (int node = 0; node < nodes; ++node) {
      const bool there =
          is_slave(node) ? squares_[static_cast<std::size_t>(node)].has_value() : node_->gradients_ready();
      if (has_shards(node) && !there) return false;
    }
    return true;
  });
  double sum = 0.0;
  for (const std::optional<double>& squares : squares_) sum += squares.value_or(0.0);
  return own_ != nullptr ? sum + node_->gradient_squares() : sum;
}

void ClusterTrunk::update(const UpdateStep& step) {
  send_all(wire::Update{step});
  node_->allow_update(step);
}

void ClusterTrunk::finish() {
  settle();
  count_own_seconds();
  count_traffic();
  const auto better = rebalancer_.end_step(stages_, plan_);
  if (!better) return;
  if (on_plan_) on_plan_(*better);
  change_plan(*better);
}

void ClusterTrunk::count_own_seconds() {
  if (own_ == nullptr) return;
  const std::vector<double> seconds = node_->take_seconds();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    times_.back().compute += seconds[s];
    if (training_) rebalancer_.count(slave_count(), s, seconds[s]);
  }
}

/// A step that is done has done every send of its graph.
void ClusterTrunk::count_traffic() {
  if (!training_) return;
  for (std::size_t member = 0; member < times_.size(); ++member) {
    times_[member].sent += traffic_[member].sent;
    times_[member].received += traffic_[member].received;
  }
}

std::vector<MemberTime> ClusterTrunk::take_times() {
  std::vector<MemberTime> times = times_;
  for (MemberTime& time : times_) time = {.member = time.member};
  return times;
}

}  // namespace convoy
