#include "master/cluster/crew.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Clock;

constexpr auto kTick = 100ms;
constexpr auto kLastWords = 50ms;
/// Taking part in so many steps resets the count of a slave's losses.
constexpr int kStepsToResetLosses = 20;
/// The largest number of messages without content that a member may send in a second. It sends about ten, but they pile
/// up while the master is busy.
constexpr int kMostSigns = 10000;
/// How long a send may wait for a full queue. The queue holds the maps of a whole step, so a peer that keeps it full
/// for this long does not read.
constexpr auto kSendPatience = 60s;
/// The most bytes that may wait in the inbox while another crew is served. Members send no more than the maps of a
/// stage before they need something of the master.
constexpr std::size_t kMostWaiting = std::size_t{1} << 30;
/// The bytes that a message takes besides its payload.
constexpr std::size_t kBytesOfMessage = 512;

std::size_t size_of_message(const wire::ServerLink::From& from) {
  return kBytesOfMessage + from.envelope.payload.size();
}

/// `what` is the predicate of a sentence about the slave; it may contain text from the slave.
[[noreturn]] void lost(const SlaveInfo& slave, const std::string& what) {
  throw PeerLost(slave.name, fmt::format("slave {} {}", slave.name, printable(what, kMostWords)));
}

}  // namespace

Crew::Crew(Lobby& lobby) : lobby_(lobby) { lobby_.add(*this); }

Crew::~Crew() {
  try {
    dismiss("the run ended");
  } catch (const std::exception&) {
    // A Bye that does not arrive does no harm: the slave notices the closed connection.
  }
  lobby_.remove(*this);
}

// ---- newcomers -----------------------------------------------------------------------------------------------------

std::size_t Crew::find(const std::string& id) const {
  const auto found = std::ranges::find(slaves_, id, &SlaveInfo::id);
  return static_cast<std::size_t>(found - slaves_.begin());
}

std::vector<SlaveInfo> Crew::present() const {
  std::vector<SlaveInfo> all = slaves_;
  const std::vector<SlaveInfo> guests = lobby_.guests().all();
  all.insert(all.end(), guests.begin(), guests.end());
  return all;
}

bool Crew::gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed, std::size_t most) {
  changed();
  lobby_.guests().need_slaves(true);
  while (static_cast<int>(slaves_.size()) + lobby_.guests().ready() < count && !stop) {
    const std::size_t before = lobby_.guests().size();
    lobby_.take_message(Clock::now() + kTick);
    take_aside();
    lobby_.greet();
    if (lobby_.guests().size() != before) changed();
  }
  lobby_.guests().need_slaves(false);
  if (stop) return false;
  take_in(most - std::min(most, slaves_.size()));
  return true;
}

void Crew::take_in(std::size_t most) {
  for (SlaveInfo& guest : lobby_.guests().take_in(most)) slaves_.push_back(std::move(guest));
  watch_members();
}

/// Sorts the members, and watches all of them from now on.
void Crew::watch_members() {
  std::ranges::sort(slaves_, {}, &SlaveInfo::name);
  const auto now = Clock::now();
  liveness_.assign(slaves_.size(), {.heard = now, .message = now, .progress = now});
}

void Crew::close_for(std::chrono::milliseconds time) { closed_until_ = Clock::now() + time; }

bool Crew::open() const { return Clock::now() >= closed_until_; }

bool Crew::changes() const {
  return (lobby_.guests().ready() > 0 && open() && lobby_.is_smallest(*this)) ||
         std::ranges::any_of(slaves_, &SlaveInfo::leaving);
}

void Crew::attend() {
  lobby_.greet();
  constexpr int kMostAtOnce = 100;
  for (int i = 0; i < kMostAtOnce && lobby_.take_message(Clock::now()); ++i) continue;
  take_aside();
}

bool Crew::remove(const std::string& name, const std::string& why) {
  const auto slave = std::ranges::find(slaves_, name, &SlaveInfo::name);
  if (slave == slaves_.end()) return false;
  reached(lobby_.link(), slave->id, wire::Bye{why});
  liveness_.erase(liveness_.begin() + (slave - slaves_.begin()));
  slaves_.erase(slave);
  return true;
}

void Crew::hand_over(const std::string& name, Crew& to) {
  const auto slave = std::ranges::find(slaves_, name, &SlaveInfo::name);
  invariant(slave != slaves_.end() && &to.lobby_ == &lobby_, "a member stays in its lobby");
  to.slaves_.push_back(std::move(*slave));
  slaves_.erase(slave);
  watch_members();
  to.watch_members();
}

void Crew::count_step() {
  for (SlaveInfo& slave : slaves_) {
    if (++slave.steps == kStepsToResetLosses) lobby_.guests().forget_losses(slave.name);
  }
}

bool Crew::remove_lost(const std::string& name, const std::string& why) {
  const auto slave = std::ranges::find(slaves_, name, &SlaveInfo::name);
  if (slave == slaves_.end()) return false;
  lobby_.guests().count_loss(name, slave->address);
  return remove(name, why);
}

// ---- members -------------------------------------------------------------------------------------------------------

void Crew::send(std::size_t slave, const wire::Envelope& envelope) {
  try {
    lobby_.link().send(slaves_[slave].id, wire::Channel::data, envelope, Clock::now() + kSendPatience);
  } catch (const PeerLost& error) {
    bury(slave, fmt::format("is gone: {}", error.what()));
  }
  const auto now = Clock::now();
  liveness_[slave].heard = liveness_[slave].message = liveness_[slave].progress = now;
}

void Crew::ping() {
  KeyRing* keys = lobby_.keys();
  for (std::size_t slave = 0; slave < slaves_.size(); ++slave) {
    Liveness& life = liveness_[slave];
    const std::string why = keys != nullptr ? keys->objection(slaves_[slave].key) : "";
    if (!why.empty()) life.fault = "is not admitted any more: " + why;
    if (!reached(lobby_.link(), slaves_[slave].id, wire::Ping{})) life.gone = true;
  }
}

void Crew::deliver(wire::ServerLink::From&& from) {
  inbox_bytes_ += size_of_message(from);
  if (inbox_bytes_ > kMostWaiting) {
    inbox_bytes_ -= size_of_message(from);
    liveness_[find(from.peer)].fault = "floods the master: it has sent more than its plan needs";
    return;
  }
  inbox_.push_back(std::move(from));
}

/// Returns the oldest message of the inbox from a slave that is still a member.
std::optional<wire::ServerLink::From> Crew::take_delivered() {
  while (!inbox_.empty()) {
    wire::ServerLink::From from = std::move(inbox_.front());
    inbox_.pop_front();
    inbox_bytes_ -= size_of_message(from);
    if (has(from.peer)) return from;
  }
  return std::nullopt;
}

/// Handles the messages that have arrived while no answer is awaited. What members say is dropped, but that one wants
/// to leave.
void Crew::take_aside() {
  while (const auto from = take_delivered()) {
    if (std::holds_alternative<wire::Leaving>(from->envelope.message)) slaves_[find(from->peer)].leaving = true;
  }
}

/// Throws PeerLost for a slave that is gone. The slave may have given the reason in a last message, which is still in
/// the queue or arrives on its other connection. Messages of other members are dropped: their plan ends here.
void Crew::bury(std::size_t slave, const std::string& how) {
  const auto until = Clock::now() + kLastWords;
  do {  // a slave that floods the master must not prolong this loop
    while (const auto from = take_delivered()) {
      const wire::Message& message = from->envelope.message;
      if (std::holds_alternative<wire::Leaving>(message)) slaves_[find(from->peer)].leaving = true;
      if (find(from->peer) != slave || !from->rejected.empty()) continue;
      if (const auto* failed = std::get_if<wire::Failed>(&message)) lost(slaves_[slave], "failed: " + failed->reason);
      if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
    }
  } while (Clock::now() < until && lobby_.take_message(until));
  lost(slaves_[slave], how);
}

/// Throws PeerLost for the first member that the last ping found lost.
void Crew::expect_admitted() {
  for (std::size_t slave = 0; slave < slaves_.size(); ++slave) {
    if (!liveness_[slave].fault.empty()) lost(slaves_[slave], liveness_[slave].fault);
  }
  for (std::size_t slave = 0; slave < slaves_.size(); ++slave) {
    if (liveness_[slave].gone) bury(slave, "is gone (its connection closed, or it no longer answers)");
  }
}

void Crew::take_control(std::size_t slave, const wire::Message& message) {
  if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
  // The slave repeats its Hello until it is answered, so one may arrive after the Welcome was sent.
  if (std::holds_alternative<wire::Hello>(message)) return;
  if (std::holds_alternative<wire::Leaving>(message)) {
    slaves_[slave].leaving = true;
    return;
  }
  lost(slaves_[slave], fmt::format("broke the protocol: {} came on its control connection", wire::name_of(message)));
}

void Crew::judge(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience, Awaited as) const {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(patience).count();
  for (const std::size_t slave : awaited) {
    const Liveness& life = liveness_[slave];
    if (now - life.heard > patience) {
      lost(slaves_[slave], fmt::format("hangs: it has not answered for {:.0f} s", seconds));
    }
    const bool at_work = as == Awaited::at_work;
    if (at_work && life.waiting) continue;
    if (now - (at_work ? life.progress : life.message) > patience) {
      lost(slaves_[slave], fmt::format("hangs: it has made no progress for {:.0f} s", seconds));
    }
  }
}

std::optional<Crew::Arrival> Crew::receive(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience,
                                           wire::Deadline deadline, Awaited as) {
  const auto entered = Clock::now();
  while (true) {
    lobby_.greet();
    expect_admitted();
    const bool arrived = !inbox_.empty() || lobby_.take_message(std::min(deadline, Clock::now() + kTick));
    quiet_ = !arrived;
    const auto now = Clock::now();
    // Silence counts when the queue is empty, or when the call has lasted for `patience` although other slaves keep the
    // queue full.
    if (!arrived || now - entered > patience) judge(awaited, patience, as);
    if (auto from = take_delivered()) {
      if (auto arrival = take(find(from->peer), *from)) return arrival;
    }
    if (now >= deadline) return std::nullopt;
  }
}

void Crew::wait() {
  if (inbox_.empty()) lobby_.take_message(Clock::now() + kTick);
}

/// Returns a message for the run; handles signs of life and control messages itself.
std::optional<Crew::Arrival> Crew::take(std::size_t slave, wire::ServerLink::From& from) {
  if (!from.rejected.empty()) lost(slaves_[slave], "broke the protocol: " + from.rejected);
  wire::Message& message = from.envelope.message;
  if (from.channel == wire::Channel::control) {
    count_sign(slave);
    take_control(slave, message);
    return std::nullopt;
  }
  Liveness& life = liveness_[slave];
  life.heard = Clock::now();
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    take_sign(slave, *ping);
    return std::nullopt;
  }
  if (std::holds_alternative<wire::Attach>(message)) {
    count_sign(slave);
    return std::nullopt;
  }
  life.message = life.progress = life.heard;
  life.left = Liveness::kUnknown;
  return Arrival{slave, std::move(from.envelope)};
}

/// A Ping with fewer tasks left than any before is progress. There are only so many tasks, so it cannot go on for ever.
void Crew::take_sign(std::size_t slave, const wire::Ping& ping) {
  count_sign(slave);
  Liveness& life = liveness_[slave];
  life.waiting = ping.waiting;
  if (ping.left >= life.left) return;
  if (life.left != Liveness::kUnknown) life.progress = life.heard;
  life.left = ping.left;
}

void Crew::count_sign(std::size_t slave) {
  SlaveInfo& info = slaves_[slave];
  const auto now = Clock::now();
  if (now - info.signs_since > 1s) {
    info.signs_since = now;
    info.signs = 0;
  }
  if (++info.signs > kMostSigns) lost(info, fmt::format("floods the master: {} messages in a second", info.signs));
}

void Crew::dismiss(const std::string& reason) {
  for (const SlaveInfo& slave : slaves_) reached(lobby_.link(), slave.id, wire::Bye{reason});
  slaves_.clear();
  liveness_.clear();
  inbox_.clear();
  inbox_bytes_ = 0;
}

}  // namespace convoy
