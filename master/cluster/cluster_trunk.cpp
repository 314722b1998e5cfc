#include "master/cluster/cluster_trunk.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "core/stopwatch.hpp"
#include "core/text.hpp"
#include "wire/endpoint.hpp"

namespace convoy {
namespace {

/// Makes the token by which the slaves of one plan recognise each other's messages.
std::string make_token() {
  std::random_device entropy;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", entropy(), entropy(), entropy(), entropy());
}

}  // namespace

ClusterTrunk::ClusterTrunk(std::vector<Stage> stages, Plan plan, Crew& crew, Device* own,
                           std::chrono::milliseconds patience, Rebalancing rebalancing,
                           std::function<void(const Plan&)> on_plan)
    : stages_(std::move(stages)),
      plan_(std::move(plan)),
      crew_(crew),
      own_(own),
      patience_(patience),
      owed_(crew.slaves().size(), 0),
      rebalancer_(std::move(rebalancing)),
      on_plan_(std::move(on_plan)) {
  validate(plan_, stages_);
  invariant(!stages_.empty(), "a cluster needs stages to share");
  invariant(plan_.members.size() == slave_count() + (own != nullptr ? 1 : 0), "the plan's members match the crew");
  for (const SlaveInfo& slave : crew_.slaves()) {
    if (plan_.wire != NumberType::fp32 && !slave.sixteen_bits) {
      throw PeerLost(
          slave.name,
          fmt::format("slave {} cannot send and receive {}; run this release of Convoy on it, or leave out --wire",
                      slave.name, to_string(plan_.wire)),
          PeerLost::Reason::cannot_hold);
    }
  }
  for (const std::string& member : plan_.members) times_.push_back({.member = member});
  execute(false);
}

/// Has all members compile their shards of plan_. With `keep`, members keep the state of filters that stay with them,
/// and slaves later send one another the states in `moves`.
void ClusterTrunk::execute(bool keep, const std::vector<wire::StateMove>& moves) {
  ready_ = false;
  step_ = 0;
  own_step_ = 0;
  early_.clear();
  offers_.clear();
  steps_.clear();
  longest_ = 0.0;
  longest_step_ = 0.0;
  moving_ = !moves.empty();
  gave_up_.assign(slave_count(), false);
  unreached_.clear();
  unreached_at_ = wire::Deadline::max();
  states_.emplace(crew_, stages_);
  assign(keep, moves);
  node_ = std::make_unique<Node>(plan_, stages_, static_cast<int>(slave_count()), own_,
                                 Carrier{.send = [this](Parcel&& parcel) { carry(parcel); },
                                         .grant =
                                             [this](int to) {
                                               if (is_slave(to)) send(static_cast<std::size_t>(to), wire::Credit{1});
                                             }});
  settle();
  if (!unreached_.empty()) throw PeerLost("", unreached_, PeerLost::Reason::unreachable);
  ready_ = true;
  if (verifier_ != nullptr) verifier_->begin_plan(plan_, *node_);
  rebalancer_.begin(plan_);
}

/// Sends every slave the plan and the number of its node.
void ClusterTrunk::assign(bool keep, const std::vector<wire::StateMove>& moves) {
  token_ = make_token();
  assigned_.assign(slave_count(), false);
  wire::Assign assign{.trunk = stages_, .plan = plan_, .node = 0, .token = token_, .peers = {}, .keep = keep};
  assign.moves = moves;
  for (const SlaveInfo& slave : crew_.slaves()) {
    const bool listens = slave.peer_port != 0;
    assign.peers.push_back(listens ? wire::endpoint_for_peers(slave.address, slave.peer_port) : "");
    assign.peer_keys.push_back(slave.peer_key);
    if (!slave.key.empty()) assign.client_keys.push_back(slave.key);
  }
  for (std::size_t slave = 0; slave < slave_count(); ++slave) {
    assign.node = static_cast<std::uint32_t>(slave);
    send(slave, assign);
  }
  expect_all();
}

void ClusterTrunk::begin(const Images& images, const Pass& pass) {
  end_step();
  if (!pass.training) apply_update();
  begin_verification(pass);
  training_ = pass.training;
  squares_.assign(slave_count(), std::nullopt);
  squares_due_ = pass.training && pass.squares;
  const StepWork work{.update = std::exchange(update_, std::nullopt), .pass = pass, .scales = images.scales};
  send_step(work);
  if (image_bytes_ != nullptr) offers_.give(step_, images);
  if (pass.training) {
    trained_ = pass.step;
    ahead_ = true;
    node_->send_ahead(images.pixels);
    ahead_ = false;
  }
  begin_own(work, &images.pixels);
  given_ = 0;
}

/// Gives the slaves the next step.
void ClusterTrunk::send_step(const StepWork& work) {
  if (step_ > kFirstSteps) longest_step_ = std::max(longest_step_, waited_.count());
  ++step_;
  constexpr std::size_t kKept = 3;  // the slaves' last answers are to the last step or the one before
  steps_[step_] = {.counts = work.update || work.trains(), .update = trained_};
  if (steps_.size() > kKept) steps_.erase(steps_.begin());
  send_all(wire::Step{.number = step_, .work = work});
  expect_all();
}

/// Begins the step on the master's node, once this has finished the step before.
void ClusterTrunk::begin_own(const StepWork& work, const Pixels* images) {
  run_until([this] { return node_->finished(); });
  count_own_seconds();
  own_step_ = step_;
  node_->begin(work, images);
  if (work.update || work.trains()) {
    // A step that ends has done every send of its graph.
    const std::vector<Traffic> traffic = traffic_of(node_->graph(), plan_, stages_, work);
    for (std::size_t member = 0; member < times_.size(); ++member) {
      times_[member].sent += traffic[member].sent;
      times_[member].received += traffic[member].received;
    }
  }
  take_early();
}

/// What is left of the last training step: its verification, and shares that it shows to be better.
void ClusterTrunk::end_step() {
  if (!training_) return;
  end_verification();
  training_ = false;
  if (!changes_count()) rebalance();
}

/// Whether slaves keep what they were loaded with, because changes since then are to be collected. The plan must not
/// change until they are.
bool ClusterTrunk::changes_count() const {
  return states_type_ != NumberType::fp32 &&
         std::ranges::any_of(stages_, [](const Stage& stage) { return stage.moments > 0; });
}

/// Changes to other shares, where those of the steps under this plan show them to be better.
void ClusterTrunk::rebalance() {
  const auto better = rebalancer_.better(stages_, plan_);
  if (!better || broken()) return;
  if (on_plan_) on_plan_(*better);
  change_plan(*better);
}

/// Applies the update that is due, where no training pass follows at once.
void ClusterTrunk::apply_update() {
  settle();
  if (!update_) return;
  const StepWork work{.update = std::exchange(update_, std::nullopt), .pass = {}};
  send_step(work);
  begin_own(work, nullptr);
  settle();
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
  const auto nodes = static_cast<int>(slave_count()) + 1;
  run_until([&] {
    for (int node = 0; node < nodes; ++node) {
      const bool there = is_slave(node) ? squares_[node].has_value() : node_->gradients_ready();
      if (updates(node_->graph(), node) && !there) return false;
    }
    return true;
  });
  double sum = 0.0;
  for (const std::optional<double>& squares : squares_) sum += squares.value_or(0.0);
  return own_ != nullptr ? sum + node_->gradient_squares() : sum;
}

void ClusterTrunk::update(const UpdateStep& step) {
  squares_due_ = false;
  if (verifier_ != nullptr) verifier_->see_update(step);
  update_ = step;
}

void ClusterTrunk::count_own_seconds() {
  if (own_ == nullptr) return;
  const std::vector<double> seconds = node_->take_seconds();
  for (const double each : seconds) times_.back().compute += each;
  if (given(own_step_).counts) rebalancer_.add(slave_count(), seconds);
}

std::vector<MemberTime> ClusterTrunk::take_times() {
  std::vector<MemberTime> times = times_;
  for (MemberTime& time : times_) time = {.member = time.member};
  return times;
}

}  // namespace convoy
