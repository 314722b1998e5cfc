// What ClusterTrunk sends and receives, and how long it waits.

#include <algorithm>
#include <utility>

#include "core/stopwatch.hpp"
#include "core/text.hpp"
#include "master/cluster/cluster_trunk.hpp"

namespace convoy {
namespace {

/// After a link between two slaves broke, the master waits this long for one of them to turn out to be gone.
constexpr std::chrono::seconds kLinkPatience{6};

}  // namespace

void ClusterTrunk::send(std::size_t slave, const wire::Message& message) { crew_.send(slave, {message, {}}); }

void ClusterTrunk::send_all(const wire::Message& message) {
  for (std::size_t slave = 0; slave < slave_count(); ++slave) send(slave, message);
}

void ClusterTrunk::carry(const Parcel& parcel) {
  if (verifier_ != nullptr) verifier_->see(parcel.task, parcel.first, parcel.bytes.values);
  const std::uint64_t step = ahead_ ? step_ : own_step_;
  if (image_bytes_ != nullptr && carry_offered(parcel, step)) return;
  crew_.send(static_cast<std::size_t>(parcel.to),
             {wire::Piece{.step = step, .task = static_cast<std::uint32_t>(parcel.task), .first = parcel.first},
              wire::Payload(parcel.bytes.owner, parcel.bytes.values)});
}

/// Handles a parcel with images for a slave that keeps images: with the first parcel of a send, the slave is offered
/// the images of the send, and later parcels are dropped. Returns false for any other parcel.
bool ClusterTrunk::carry_offered(const Parcel& parcel, std::uint64_t step) {
  const auto slave = static_cast<std::size_t>(parcel.to);
  const Task& sent = node_->task(parcel.task);  // images go ahead only from one training step to the next
  if (!carries_images(sent)) return false;
  const auto bytes = static_cast<double>(parcel.bytes.values.size());
  if (parcel.first == 0) {
    offering_ = false;
    if (crew_.slaves()[slave].keeps_images) {
      if (const auto offer = offers_.offer(slave, step, parcel.task, sent, micro_batch_size(plan_))) {
        send(slave, *offer);
        offering_ = true;
      }
    }
  }
  if (offering_) {
    count_images(slave, step, -bytes);
  } else {
    image_bytes_->sent += bytes;
  }
  return offering_;
}

void ClusterTrunk::take_missing(std::size_t slave, const wire::Missing& missing) {
  const ImageBytes bytes =
      offers_.answer(slave, missing, [&](const wire::Envelope& piece) { crew_.send(slave, piece); });
  image_bytes_->sent += bytes.sent;
  image_bytes_->kept += bytes.kept;
  count_images(slave, missing.step, bytes.sent);
}

/// The bytes of a step were counted as if all images travelled.
void ClusterTrunk::count_images(std::size_t slave, std::uint64_t step, double bytes) {
  if (!given(step).counts) return;
  times_[slave].received += bytes;
  if (own_ != nullptr) times_.back().sent += bytes;
}

void ClusterTrunk::expect_all() {
  for (int& owed : owed_) ++owed;
  waited_ = {};
}

std::vector<std::size_t> ClusterTrunk::awaited() const {
  std::vector<std::size_t> slaves;
  for (std::size_t i = 0; i < owed_.size(); ++i) {
    if (owed_[i] > 0 || states_->awaits(i)) slaves.push_back(i);
  }
  return slaves;
}

void ClusterTrunk::broke_protocol(std::size_t slave, const std::string& what) const {
  const std::string& name = crew_.slaves()[slave].name;
  throw PeerLost(name, fmt::format("slave {} broke the protocol: {}", name, printable(what, kMostWords)));
}

void ClusterTrunk::run_until(const std::function<bool()>& over) {
  idle_since_ = wire::Clock::now();
  while (!over()) {
    if (!poll()) wait();
  }
}

bool ClusterTrunk::poll() {
  // Messages that have arrived go before the next task of the master's own share, because slaves may wait for their
  // effect.
  if (const auto arrival = crew_.receive({}, patience_, wire::Clock::now())) {
    take(arrival->slave, arrival->envelope);
    return true;
  }
  if (node_->work()) return true;
  // Time in which nobody polled the trunk, or in which nothing is due, is not time that slaves took.
  constexpr wire::Clock::duration kMostBetween = std::chrono::seconds(1);
  const auto now = wire::Clock::now();
  const auto idle = std::min(now - std::exchange(idle_since_, now), kMostBetween);
  if (!settled() || states_->awaits_any()) waited_ += idle;
  if (now >= unreached_at_) throw PeerLost("", unreached_, PeerLost::Reason::unreachable);
  if (waited_ > limit()) end_at_limit();
  // Slaves whose links broke wait for another plan; it is no fault of theirs that they make no progress.
  if (unreached_at_ != wire::Deadline::max()) return false;
  // Silence counts when no message is left, or when others have kept the link busy for so long.
  loud_ = crew_.quiet() ? wire::Clock::duration(0) : loud_ + idle;
  if (!crew_.quiet() && loud_ <= patience()) return false;
  const bool at_work = step_ > 0 || moving_;
  crew_.judge(awaited(), patience(), at_work ? Crew::Awaited::at_work : Crew::Awaited::one_by_one);
  return false;
}

void ClusterTrunk::wait() {
  const Stopwatch waiting;
  crew_.wait();
  if (own_ != nullptr) times_.back().wait += waiting.seconds();
}

/// The first steps compile kernels and fill caches, so they get the patience that was given. Later steps have shown how
/// long a task takes: a slave hangs if it is silent for three times the longest task and one second more. The minimum
/// spares a slave on a busy machine.
std::chrono::milliseconds ClusterTrunk::patience() const {
  constexpr double kMultiple = 3.0;
  constexpr auto kLeast = std::chrono::seconds(3);  // heartbeats notice a stopped process sooner than this
  if (step_ <= kFirstSteps || longest_ <= 0.0) return patience_;
  const std::chrono::milliseconds measured(static_cast<long>(1e3 * (kMultiple * longest_ + 1.0)));
  return std::min(patience_, std::max<std::chrono::milliseconds>(kLeast, measured));
}

/// Returns how long the master waits for a step or an answer, whatever the slaves send meanwhile. The limit is
/// generous, because a slow link may delay a step much more than its tasks do. It ends a step that a slave draws out
/// for ever.
std::chrono::milliseconds ClusterTrunk::limit() const {
  constexpr int kPatiences = 10;
  constexpr double kMultiple = 10.0;
  constexpr auto kLeast = std::chrono::seconds(60);
  if (longest_step_ <= 0.0 || states_->awaits_any()) return kPatiences * patience_;
  return std::max<std::chrono::milliseconds>(
      kLeast, std::chrono::milliseconds(static_cast<long>(1e3 * kMultiple * longest_step_)));
}

/// Throws PeerLost for a step or an answer that takes too long. If all values go through the master, the slave at fault
/// is the sender of the first values in the graph's order that have not arrived: this slave has everything that they
/// depend on. If slaves send values to one another, the master cannot know the slave at fault, so it blames the plan.
void ClusterTrunk::end_at_limit() {
  const std::string how_long = fmt::format("within {:.0f} s", std::chrono::duration<double>(limit()).count());
  if (!through_master()) {
    const std::string what = step_ > 0 ? fmt::format("step {} did not end", step_) : "slaves did not exchange states";
    throw PeerLost("", fmt::format("{} {}, and slaves wait for one another", what, how_long),
                   PeerLost::Reason::unreachable);
  }
  std::vector<std::size_t> owing = awaited();
  if (squares_due_) std::erase_if(owing, [this](std::size_t each) { return squares_[each].has_value(); });
  std::size_t slave = owing.empty() ? 0 : owing.front();
  if (const auto sender = node_->awaited_sender(); step_ > 0 && sender && is_slave(*sender)) {
    slave = static_cast<std::size_t>(*sender);
  }
  const std::string& name = crew_.slaves()[slave].name;
  throw PeerLost(name, fmt::format("slave {} holds the others up: it did not finish its part {}", name, how_long));
}

bool ClusterTrunk::sends_to_slaves(std::size_t slave) const {
  return !slaves_sent_to(plan_, stages_, static_cast<int>(slave)).empty();
}

bool ClusterTrunk::through_master() const {
  if (moving_) return false;
  for (std::size_t slave = 0; slave < slave_count(); ++slave) {
    if (sends_to_slaves(slave)) return false;
  }
  return true;
}

bool ClusterTrunk::settled() const {
  return node_->finished() && std::ranges::none_of(owed_, [](int owed) { return owed > 0; });
}

void ClusterTrunk::settle() {
  run_until([this] { return settled(); });
}

/// Calls `call`, which handles a message of `slave`. Blames the slave for any Error, unless a member was lost meanwhile
/// or the master's own device failed.
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
  const std::string& name = crew_.slaves()[slave].name;
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
    return take_unreached(slave, *missed);
  }
  const auto* piece = std::get_if<wire::Piece>(&envelope.message);
  const bool asked = owed_[slave] > 0 || (piece != nullptr && states_->awaits(slave));
  if (!asked) broke_protocol(slave, "an unrequested " + wire::name_of(envelope.message) + " came");
  if (const auto* squares = std::get_if<wire::Squares>(&envelope.message)) {
    if (!squares_due_ || squares_[slave]) broke_protocol(slave, "an unrequested Squares came");
    squares_[slave] = squares->sum;
  } else if (piece != nullptr) {
    judged(slave, [&] { take_piece(slave, *piece, envelope.payload); });
  } else if (const auto* missing = std::get_if<wire::Missing>(&envelope.message)) {
    judged(slave, [&] { take_missing(slave, *missing); });
  } else if (const auto* wanted = std::get_if<wire::Wanted>(&envelope.message)) {
    waited_ = {};
    judged(slave, [&] { times_[slave].states_received += static_cast<double>(states_->take_wanted(slave, *wanted)); });
  } else if (const auto* done = std::get_if<wire::Done>(&envelope.message)) {
    take_done(slave, *done);
  } else {
    broke_protocol(slave, wire::name_of(envelope.message) + " came where Piece or Done was due");
  }
}

void ClusterTrunk::take_done(std::size_t slave, const wire::Done& done) {
  // Otherwise the slave would compute with a state that it never received.
  if (owed_[slave] == states_->unanswered_offers(slave)) broke_protocol(slave, "Done came where Wanted was due");
  --owed_[slave];
  // Otherwise the master would wait for ever: nothing but Squares would be due, and so no limit would count.
  if (squares_due_ && owed_[slave] == 0 && !squares_[slave] && updates(node_->graph(), static_cast<int>(slave))) {
    broke_protocol(slave, "Done came where Squares was due");
  }
  if (step_ == 0) waited_ = {};
  const Given step = given(step_ - std::min<std::uint64_t>(step_, static_cast<std::uint64_t>(owed_[slave])));
  for (const std::uint32_t stage : done.broken) {
    if (stage >= stages_.size()) broke_protocol(slave, fmt::format("a Done that names stage {}", stage));
    broken_.try_emplace(stage, step.update);
  }
  times_[slave].compute += done.compute;
  times_[slave].transfer += done.transfer;
  times_[slave].wait += done.wait;
  if (book_ != nullptr && done.energy) book_->take(crew_.slaves()[slave].id, crew_.slaves()[slave].name, *done.energy);
  if (!step.counts || done.stages.size() != stages_.size()) return;
  rebalancer_.add(slave, done.stages);
  for (const double seconds : done.stages) longest_ = std::max(longest_, seconds);
}

void ClusterTrunk::take_unreached(std::size_t slave, const wire::Unreached& missed) {
  if (!moving_ && !sends_to_slaves(slave)) {
    broke_protocol(slave, "an Unreached, although the plan has it send to no other slave");
  }
  if (gave_up_[slave]) broke_protocol(slave, "a second Unreached");
  gave_up_[slave] = true;
  // The link of a slave that has said Done may break while others still compile.
  if (!ready_ && owed_[slave] > 0) --owed_[slave];
  // If the other slave is dead, the master loses it too within kLinkPatience. Only a broken link between two slaves
  // that are both alive needs another plan.
  if (ready_ && unreached_.empty()) unreached_at_ = wire::Clock::now() + kLinkPatience;
  unreached_ +=
      fmt::format("{}slave {} cannot connect to {}", unreached_.empty() ? "" : "; ", crew_.slaves()[slave].name,
                  printable(fmt::format("{}", fmt::join(missed.peers, ", ")), kMostWords));
}

void ClusterTrunk::take_piece(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload) {
  if (piece.step == 0 && states_->awaits(slave)) {
    if (states_->take(slave, piece, payload)) waited_ = {};
    times_[slave].states_sent += static_cast<double>(payload.size());
    return;
  }
  if (piece.step == own_step_ + 1 && own_step_ < step_) {
    return early_.add(static_cast<int>(slave), piece, payload, node_->bytes_due());
  }
  receive(static_cast<int>(slave), piece, payload);
}

void ClusterTrunk::take_early() {
  early_.give([this](int from, const wire::Piece& piece, const wire::Payload& payload) {
    judged(static_cast<std::size_t>(from), [&] { receive(from, piece, payload); });
  });
}

void ClusterTrunk::receive(int from, const wire::Piece& piece, const wire::Payload& payload) {
  if (own_step_ == 0 || piece.step != own_step_) fail("a Piece of step {} came in step {}", piece.step, own_step_);
  const auto owner = std::make_shared<wire::Payload>(payload);
  node_->receive(from, static_cast<int>(piece.task), piece.first, {owner, std::as_const(*owner).bytes()});
  if (verifier_ != nullptr) verifier_->see(static_cast<int>(piece.task), piece.first, std::as_const(*owner).bytes());
}

}  // namespace convoy
