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
/// How often in a row a slave of one name may be lost within so many steps before the run does without it for good.
constexpr int kMostLosses = 3;
constexpr int kStepsOfTheSound = 20;
constexpr std::size_t kMostGuests = 256;
constexpr std::size_t kLongestDevice = 200;
/// Signs of life, hellos and the like that a member may send in a second: it needs some ten, and more come at once to a
/// master that was long busy.
constexpr int kMostSigns = 10000;
/// Who is turned away tries again: each is told once in so long, and no more than so many.
constexpr auto kTellAgain = 60s;
constexpr std::size_t kMostTold = 64;
/// How long a send may stand in a full queue: the queue holds a whole set of maps, so this is a peer that takes
/// nothing.
constexpr auto kSendPatience = 60s;

/// `what` may quote the slave.
[[noreturn]] void lost(const SlaveInfo& slave, const std::string& what) {
  throw PeerLost(slave.name, fmt::format("slave {} {}", slave.name, printable(what, kMostWords)));
}

}  // namespace

Roster::Roster(const std::string& endpoint, std::string run, const std::optional<wire::MasterKeys>& keys,
               std::function<void(const std::string&)> notice)
    : link_(endpoint, {.keys = keys}), run_(std::move(run)), notice_(std::move(notice)) {
  if (keys) beacon_.emplace(link_.endpoint(), keys->master.public_key);
}

Roster::~Roster() {
  try {
    dismiss("the run ended");
  } catch (const std::exception&) {
    // A farewell that does not arrive is no failure: the slave notices the closed connection.
  }
}

// ---- newcomers -----------------------------------------------------------------------------------------------------

std::size_t Roster::find(const std::string& id) const {
  const auto found = std::ranges::find(slaves_, id, &SlaveInfo::id);
  return static_cast<std::size_t>(found - slaves_.begin());
}

int Roster::attached() const { return static_cast<int>(std::ranges::count(lobby_, true, &Guest::attached)); }

std::vector<SlaveInfo> Roster::present() const {
  std::vector<SlaveInfo> all = slaves_;
  for (const Guest& guest : lobby_) all.push_back(guest.info);
  return all;
}

/// Says it on the control connection; false where nobody listens any more.
bool Roster::reached(const std::string& id, const wire::Message& message) {
  try {
    link_.send(id, wire::Channel::control, {message, {}}, Clock::now());
    return true;
  } catch (const PeerLost&) {
    return false;
  }
}

/// Why a slave cannot be let in.
std::optional<std::string> Roster::objection(const wire::ServerLink::From& from, const wire::Hello& hello) const {
  if (hello.version != wire::kProtocolVersion) {
    return fmt::format(
        "the master speaks version {} of the protocol, this slave {}; run the same release of Convoy on both",
        wire::kProtocolVersion, hello.version);
  }
  if (const auto fault = fault_of_name(hello.name)) return *fault + "; start this slave with another --name";
  const std::vector<SlaveInfo> all = present();
  const bool taken = std::ranges::any_of(
      all, [&](const SlaveInfo& slave) { return slave.name == hello.name && slave.id != from.peer; });
  if (taken || hello.name == kMasterName) {
    return fmt::format("the name '{}' is taken; start this slave with another --name", hello.name);
  }
  if (lobby_.size() >= kMostGuests) return "too many slaves wait to join";
  if (welcome_ && !welcome_->contains(hello.name)) return unwelcome_;
  const auto losses = losses_.find(hello.name);
  if (losses != losses_.end() && losses->second >= kMostLosses) {
    return fmt::format("run {} has lost {} {} times in a row; it waits for the next", run_, hello.name, losses->second);
  }
  return std::nullopt;
}

void Roster::admit(const wire::ServerLink::From& from, const wire::Hello& hello) {
  if (const auto reason = objection(from, hello)) {
    reached(from.peer, wire::Refused{*reason});
    tell_refusal({fmt::format("slave {} at {}", printable(hello.name, kLongestName), from.address), *reason});
    return;
  }
  const SlaveInfo info{
      .id = from.peer,
      .name = hello.name,
      .device = printable(hello.device, kLongestDevice),
      .threads = static_cast<int>(hello.threads),
      .memory = hello.memory,
      .filter_block = static_cast<int>(hello.filter_block),
      .sixteen_bits = std::ranges::find(hello.capabilities, wire::kSixteenBits) != hello.capabilities.end(),
      .address = from.address,
      .peer_port = static_cast<int>(hello.peer_port),
      .peer_key = hello.peer_key};
  if (!reached(from.peer, wire::Welcome{wire::kProtocolVersion, run_})) return;
  const auto known = std::ranges::find_if(lobby_, [&](const Guest& guest) { return guest.info.id == info.id; });
  if (known == lobby_.end()) lobby_.push_back({info, false});
}

void Roster::handle_newcomer(const wire::ServerLink::From& from) {
  if (!from.rejected.empty()) {
    if (!from.address.empty()) tell_refusal({from.address, from.rejected});
    return;
  }
  const auto of_peer = [&](const Guest& guest) { return guest.info.id == from.peer; };
  if (const auto* hello = std::get_if<wire::Hello>(&from.envelope.message)) {
    admit(from, *hello);
  } else if (std::holds_alternative<wire::Attach>(from.envelope.message)) {
    const auto guest = std::ranges::find_if(lobby_, of_peer);
    if (guest != lobby_.end()) guest->attached = true;
  } else if (std::holds_alternative<wire::Bye>(from.envelope.message)) {
    std::erase_if(lobby_, of_peer);
  } else if (std::holds_alternative<wire::Leaving>(from.envelope.message)) {
    reached(from.peer, wire::Bye{"the run did not need it yet"});
    std::erase_if(lobby_, of_peer);
  }
}

void Roster::tell_refusal(const wire::Refusal& refusal) {
  const auto now = Clock::now();
  std::erase_if(told_, [&](const auto& each) { return each.second <= now; });
  const std::string text = fmt::format("turned away {}: {}", refusal.address, printable(refusal.why, kMostWords));
  if (notice_ && told_.size() < kMostTold && told_.emplace(text, now + kTellAgain).second) notice_(text);
}

/// Those who do not hear have gone; and those who were not let in are told of.
void Roster::greet_lobby() {
  for (const wire::Refusal& each : link_.take_refusals()) tell_refusal(each);
  std::erase_if(lobby_, [&](const Guest& guest) { return !reached(guest.info.id, wire::Ping{}); });
}

bool Roster::gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed) {
  changed();
  while (static_cast<int>(slaves_.size()) + attached() < count) {
    if (stop) return false;
    const std::size_t before = lobby_.size();
    if (const auto from = link_.receive(Clock::now() + kTick)) {
      handle_newcomer(*from);
    } else {
      greet_lobby();
    }
    if (lobby_.size() != before) changed();
  }
  take_in();
  return true;
}

void Roster::take_in() {
  for (const Guest& guest : lobby_) {
    if (guest.attached) slaves_.push_back(guest.info);
  }
  std::erase_if(lobby_, &Guest::attached);
  std::ranges::sort(slaves_, {}, &SlaveInfo::name);
  progress_.assign(slaves_.size(), Clock::now());
}

void Roster::admit_only(std::set<std::string> names, std::string reason) {
  welcome_ = std::move(names);
  unwelcome_ = std::move(reason);
}

bool Roster::changes() const { return attached() > 0 || std::ranges::any_of(slaves_, &SlaveInfo::leaving); }

void Roster::attend() {
  constexpr int kMostAtOnce = 100;
  for (int i = 0; i < kMostAtOnce; ++i) {
    const auto from = link_.receive(Clock::now());
    if (!from) return;
    if (find(from->peer) == slaves_.size()) handle_newcomer(*from);
  }
}

bool Roster::remove(const std::string& name, const std::string& why) {
  const auto slave = std::ranges::find(slaves_, name, &SlaveInfo::name);
  if (slave == slaves_.end()) return false;
  reached(slave->id, wire::Bye{why});
  progress_.erase(progress_.begin() + (slave - slaves_.begin()));
  slaves_.erase(slave);
  return true;
}

void Roster::count_step() {
  for (SlaveInfo& slave : slaves_) {
    if (++slave.steps == kStepsOfTheSound) losses_.erase(slave.name);
  }
}

bool Roster::remove_lost(const std::string& name, const std::string& why) {
  if (!remove(name, why)) return false;
  ++losses_[name];
  return true;
}

// ---- members -------------------------------------------------------------------------------------------------------

void Roster::send(std::size_t slave, const wire::Envelope& envelope) {
  try {
    link_.send(slaves_[slave].id, wire::Channel::data, envelope, Clock::now() + kSendPatience);
  } catch (const PeerLost& error) {
    bury(slave, fmt::format("is gone (its connection closed): {}", error.what()));
  }
  progress_[slave] = Clock::now();
}

void Roster::ping_all() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kPingInterval;
  greet_lobby();
  for (std::size_t slave = 0; slave < slaves_.size(); ++slave) {
    if (!reached(slaves_[slave].id, wire::Ping{})) {
      bury(slave, "is gone (its connection closed, or it no longer answers)");
    }
  }
}

/// A slave that is gone may have said why: its last words lie in the queue, or come on its other connection. What the
/// others have sent is of a plan that ends here.
void Roster::bury(std::size_t slave, const std::string& how) {
  const auto until = Clock::now() + kLastWords;
  while (Clock::now() < until) {  // whoever floods must not keep this going
    const auto from = link_.receive(until);
    if (!from) break;
    const wire::Message& message = from->envelope.message;
    const std::size_t sender = find(from->peer);
    if (sender == slaves_.size()) handle_newcomer(*from);
    if (sender < slaves_.size() && std::holds_alternative<wire::Leaving>(message)) slaves_[sender].leaving = true;
    if (sender != slave || !from->rejected.empty()) continue;
    if (const auto* failed = std::get_if<wire::Failed>(&message)) lost(slaves_[slave], "failed: " + failed->reason);
    if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
  }
  lost(slaves_[slave], how);
}

void Roster::take_control(std::size_t slave, const wire::Message& message) {
  if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
  // A Hello that crossed our Welcome is no news; the slave repeats it until it is answered.
  if (std::holds_alternative<wire::Hello>(message)) return;
  if (std::holds_alternative<wire::Leaving>(message)) {
    slaves_[slave].leaving = true;
    return;
  }
  lost(slaves_[slave], fmt::format("broke the protocol: {} on its control connection", wire::name_of(message)));
}

void Roster::judge_silence(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience) {
  for (const std::size_t slave : awaited) {
    if (Clock::now() - progress_[slave] > patience) {
      lost(slaves_[slave],
           fmt::format("hangs: no answer for {:.0f} s", std::chrono::duration<double>(patience).count()));
    }
  }
}

std::optional<Roster::Arrival> Roster::receive(const std::vector<std::size_t>& awaited,
                                               std::chrono::milliseconds patience, wire::Deadline deadline) {
  const auto entered = Clock::now();
  while (true) {
    ping_all();
    auto from = link_.receive(std::min(deadline, Clock::now() + kTick));
    const auto now = Clock::now();
    // The queue is empty, or whoever was to speak has had time to although others keep it full.
    if (!from || now - entered > patience) judge_silence(awaited, patience);
    if (!from) {
      if (now >= deadline) return std::nullopt;
      continue;
    }
    const std::size_t slave = find(from->peer);
    if (slave == slaves_.size()) {
      handle_newcomer(*from);
    } else if (auto arrival = take(slave, *from)) {
      return arrival;
    }
    if (now >= deadline) return std::nullopt;
  }
}

/// What is for the run; the rest is dealt with here.
std::optional<Roster::Arrival> Roster::take(std::size_t slave, wire::ServerLink::From& from) {
  if (!from.rejected.empty()) lost(slaves_[slave], "broke the protocol: " + from.rejected);
  wire::Message& message = from.envelope.message;
  if (from.channel == wire::Channel::control) {
    count_sign(slave);
    take_control(slave, message);
    return std::nullopt;
  }
  progress_[slave] = Clock::now();
  if (std::holds_alternative<wire::Attach>(message) || std::holds_alternative<wire::Ping>(message)) {
    count_sign(slave);
    return std::nullopt;
  }
  return Arrival{slave, std::move(from.envelope)};
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
  for (const SlaveInfo& slave : present()) reached(slave.id, wire::Bye{reason});
  slaves_.clear();
  progress_.clear();
  lobby_.clear();
}

}  // namespace convoy
