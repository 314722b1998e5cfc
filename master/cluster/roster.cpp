#include "master/cluster/roster.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Clock;

constexpr auto kTick = 100ms;
constexpr auto kPingInterval = 250ms;
constexpr auto kLastWords = 50ms;
/// Taking part in so many steps resets the count of a slave's losses.
constexpr int kStepsToResetLosses = 20;
/// The largest number of messages without content that a member may send in a second. It sends about ten, but they pile
/// up while the master is busy.
constexpr int kMostSigns = 10000;
/// How long a send may wait for a full queue. The queue holds the maps of a whole step, so a peer that keeps it full
/// for this long does not read.
constexpr auto kSendPatience = 60s;

wire::LinkOptions options_of(const std::shared_ptr<KeyRing>& keys) {
  if (!keys) return {};
  return {.keys = keys->keys(), .admission = [keys](const std::string& client) { return keys->objection(client); }};
}

/// `what` is the predicate of a sentence about the slave; it may contain text from the slave.
[[noreturn]] void lost(const SlaveInfo& slave, const std::string& what) {
  throw PeerLost(slave.name, fmt::format("slave {} {}", slave.name, printable(what, kMostWords)));
}

}  // namespace

Roster::Roster(const std::string& endpoint, std::string run, const std::shared_ptr<KeyRing>& keys,
               std::function<void(const std::string&)> notice, wire::Network& network)
    : keys_(keys),
      link_(network.listen(endpoint, options_of(keys))),
      lobby_(*link_, std::move(run), keys.get(), std::move(notice)) {
  if (keys) beacon_.emplace(link_->endpoint(), keys->keys().master.public_key);
}

Roster::~Roster() {
  try {
    dismiss("the run ended");
  } catch (const std::exception&) {
    // A Bye that does not arrive does no harm: the slave notices the closed connection.
  }
}

// ---- newcomers -----------------------------------------------------------------------------------------------------

std::size_t Roster::find(const std::string& id) const {
  const auto found = std::ranges::find(slaves_, id, &SlaveInfo::id);
  return static_cast<std::size_t>(found - slaves_.begin());
}

std::vector<SlaveInfo> Roster::present() const {
  std::vector<SlaveInfo> all = slaves_;
  const std::vector<SlaveInfo> guests = lobby_.guests();
  all.insert(all.end(), guests.begin(), guests.end());
  return all;
}

bool Roster::gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed) {
  changed();
  lobby_.need_slaves(true);
  while (static_cast<int>(slaves_.size()) + lobby_.ready() < count && !stop) {
    const std::size_t before = lobby_.size();
    if (const auto from = link_->receive(Clock::now() + kTick)) take_aside(*from);
    greet_lobby();
    if (lobby_.size() != before) changed();
  }
  lobby_.need_slaves(false);
  if (stop) return false;
  take_in();
  return true;
}

void Roster::take_in(std::size_t most) {
  for (SlaveInfo& guest : lobby_.take_in(most)) slaves_.push_back(std::move(guest));
  std::ranges::sort(slaves_, {}, &SlaveInfo::name);
  const auto now = Clock::now();
  liveness_.assign(slaves_.size(), {.heard = now, .message = now, .progress = now});
}

void Roster::close_for(std::chrono::milliseconds time) { closed_until_ = Clock::now() + time; }

bool Roster::open() const { return Clock::now() >= closed_until_; }

bool Roster::changes() const {
  return (lobby_.ready() > 0 && open()) || std::ranges::any_of(slaves_, &SlaveInfo::leaving);
}

/// Guests that have gone are noticed, and leave their names to others.
void Roster::greet_lobby() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kPingInterval;
  lobby_.greet(slaves_);
}

void Roster::attend() {
  greet_lobby();
  constexpr int kMostAtOnce = 100;
  for (int i = 0; i < kMostAtOnce; ++i) {
    const auto from = link_->receive(Clock::now());
    if (!from) return;
    take_aside(*from);
  }
}

bool Roster::remove(const std::string& name, const std::string& why) {
  const auto slave = std::ranges::find(slaves_, name, &SlaveInfo::name);
  if (slave == slaves_.end()) return false;
  reached(*link_, slave->id, wire::Bye{why});
  liveness_.erase(liveness_.begin() + (slave - slaves_.begin()));
  slaves_.erase(slave);
  return true;
}

void Roster::count_step() {
  for (SlaveInfo& slave : slaves_) {
    if (++slave.steps == kStepsToResetLosses) lobby_.forget_losses(slave.name);
  }
}

bool Roster::remove_lost(const std::string& name, const std::string& why) {
  const auto slave = std::ranges::find(slaves_, name, &SlaveInfo::name);
  if (slave == slaves_.end()) return false;
  lobby_.count_loss(name, slave->address);
  return remove(name, why);
}

// ---- members -------------------------------------------------------------------------------------------------------

void Roster::send(std::size_t slave, const wire::Envelope& envelope) {
  try {
    link_->send(slaves_[slave].id, wire::Channel::data, envelope, Clock::now() + kSendPatience);
  } catch (const PeerLost& error) {
    bury(slave, fmt::format("is gone (its connection closed): {}", error.what()));
  }
  const auto now = Clock::now();
  liveness_[slave].heard = liveness_[slave].message = liveness_[slave].progress = now;
}

void Roster::ping_all() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kPingInterval;
  lobby_.greet(slaves_);
  for (std::size_t slave = 0; keys_ && slave < slaves_.size(); ++slave) {
    const std::string why = keys_->objection(slaves_[slave].key);
    if (!why.empty()) lost(slaves_[slave], "is not admitted any more: " + why);
  }
  for (std::size_t slave = 0; slave < slaves_.size(); ++slave) {
    if (!reached(*link_, slaves_[slave].id, wire::Ping{})) {
      bury(slave, "is gone (its connection closed, or it no longer answers)");
    }
  }
}

/// Handles a message that arrives while no answer is awaited. What members say is dropped, but that one wants to leave.
void Roster::take_aside(const wire::ServerLink::From& from) {
  const std::size_t slave = find(from.peer);
  if (slave == slaves_.size()) return lobby_.take(from, slaves_);
  if (std::holds_alternative<wire::Leaving>(from.envelope.message)) slaves_[slave].leaving = true;
}

/// Throws PeerLost for a slave that is gone. The slave may have given the reason in a last message, which is still in
/// the queue or arrives on its other connection. Messages of other members are dropped: their plan ends here.
void Roster::bury(std::size_t slave, const std::string& how) {
  const auto until = Clock::now() + kLastWords;
  while (Clock::now() < until) {  // a slave that floods the master must not prolong this loop
    const auto from = link_->receive(until);
    if (!from) break;
    const wire::Message& message = from->envelope.message;
    take_aside(*from);
    if (find(from->peer) != slave || !from->rejected.empty()) continue;
    if (const auto* failed = std::get_if<wire::Failed>(&message)) lost(slaves_[slave], "failed: " + failed->reason);
    if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
  }
  lost(slaves_[slave], how);
}

void Roster::take_control(std::size_t slave, const wire::Message& message) {
  if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
  // The slave repeats its Hello until it is answered, so one may arrive after the Welcome was sent.
  if (std::holds_alternative<wire::Hello>(message)) return;
  if (std::holds_alternative<wire::Leaving>(message)) {
    slaves_[slave].leaving = true;
    return;
  }
  lost(slaves_[slave], fmt::format("broke the protocol: {} came on its control connection", wire::name_of(message)));
}

void Roster::judge(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience, Awaited as) {
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

std::optional<Roster::Arrival> Roster::receive(const std::vector<std::size_t>& awaited,
                                               std::chrono::milliseconds patience, wire::Deadline deadline,
                                               Awaited as) {
  const auto entered = Clock::now();
  while (true) {
    ping_all();
    auto from = link_->receive(std::min(deadline, Clock::now() + kTick));
    const auto now = Clock::now();
    // Silence counts when the queue is empty, or when the call has lasted for `patience` although other slaves keep the
    // queue full.
    if (!from || now - entered > patience) judge(awaited, patience, as);
    if (!from) {
      if (now >= deadline) return std::nullopt;
      continue;
    }
    const std::size_t slave = find(from->peer);
    if (slave == slaves_.size()) {
      lobby_.take(*from, slaves_);
    } else if (auto arrival = take(slave, *from)) {
      return arrival;
    }
    if (now >= deadline) return std::nullopt;
  }
}

/// Returns a message for the run; handles signs of life and control messages itself.
std::optional<Roster::Arrival> Roster::take(std::size_t slave, wire::ServerLink::From& from) {
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
void Roster::take_sign(std::size_t slave, const wire::Ping& ping) {
  count_sign(slave);
  Liveness& life = liveness_[slave];
  life.waiting = ping.waiting;
  if (ping.left >= life.left) return;
  if (life.left != Liveness::kUnknown) life.progress = life.heard;
  life.left = ping.left;
}

void Roster::count_sign(std::size_t slave) {
  SlaveInfo& info = slaves_[slave];
  const auto now = Clock::now();
  if (now - info.signs_since > 1s) {
    info.signs_since = now;
    info.signs = 0;
  }
  if (++info.signs > kMostSigns) lost(info, fmt::format("floods the master: {} messages in a second", info.signs));
}

void Roster::dismiss(const std::string& reason) {
  for (const SlaveInfo& slave : slaves_) reached(*link_, slave.id, wire::Bye{reason});
  slaves_.clear();
  liveness_.clear();
  lobby_.dismiss(reason);
}

}  // namespace convoy
