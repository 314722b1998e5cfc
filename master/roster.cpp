#include "master/roster.hpp"

#include <algorithm>
#include <numeric>

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Clock;

constexpr auto kTick = 100ms;
constexpr auto kPingInterval = 250ms;
/// How long a send may stand in a full queue: the queue holds a whole set of maps, so this is a peer that takes
/// nothing.
constexpr auto kSendPatience = 60s;

[[noreturn]] void lost(const SlaveInfo& slave, const std::string& what) {
  throw PeerLost(slave.name, fmt::format("slave {} {}", slave.name, what));
}

}  // namespace

Roster::Roster(const std::string& endpoint, std::string run) : link_(endpoint), run_(std::move(run)) {}

Roster::~Roster() {
  try {
    dismiss("the run ended");
  } catch (const std::exception&) {
    // A farewell that does not arrive is no failure: the slave notices the closed connection.
  }
}

std::size_t Roster::find(const std::string& id) const {
  const auto found = std::find_if(slaves_.begin(), slaves_.end(), [&](const SlaveInfo& s) { return s.id == id; });
  return static_cast<std::size_t>(found - slaves_.begin());
}

int Roster::attached() const {
  return static_cast<int>(std::count_if(seen_.begin(), seen_.end(), [](const Seen& s) { return s.attached; }));
}

void Roster::turn_away(const std::string& peer, const std::string& reason) {
  try {
    link_.send(peer, wire::Channel::control, {wire::Refused{reason}, {}}, Clock::now());
  } catch (const PeerLost&) {
    // It has gone already.
  }
}

void Roster::admit(const wire::ServerLink::From& from, const wire::Hello& hello) {
  if (hello.version != wire::kProtocolVersion) {
    return turn_away(from.peer, fmt::format("the master speaks version {} of the protocol, this slave {}; run the same "
                                            "release of Convoy on both",
                                            wire::kProtocolVersion, hello.version));
  }
  const bool taken = std::any_of(slaves_.begin(), slaves_.end(), [&](const SlaveInfo& slave) {
    return slave.name == hello.name && slave.id != from.peer;
  });
  if (taken || hello.name == "master") {
    return turn_away(from.peer,
                     fmt::format("the name '{}' is taken; start this slave with another --name", hello.name));
  }
  const std::size_t index = find(from.peer);
  if (index == slaves_.size()) {
    slaves_.emplace_back();
    seen_.emplace_back();
  }
  slaves_[index] = {
      .id = from.peer,
      .name = hello.name,
      .device = hello.device,
      .threads = static_cast<int>(hello.threads),
      .memory = hello.memory,
      .filter_block = static_cast<int>(hello.filter_block),
      .sixteen_bits = std::ranges::find(hello.capabilities, wire::kSixteenBits) != hello.capabilities.end(),
      .address = from.address,
      .peer_port = static_cast<int>(hello.peer_port)};
  try {
    link_.send(from.peer, wire::Channel::control, {wire::Welcome{wire::kProtocolVersion, run_}, {}},
               Clock::now() + kTick);
  } catch (const PeerLost&) {
    drop(index);
  }
}

void Roster::drop(std::size_t slave) {
  slaves_.erase(slaves_.begin() + static_cast<std::ptrdiff_t>(slave));
  seen_.erase(seen_.begin() + static_cast<std::ptrdiff_t>(slave));
}

void Roster::drop_vanished() {
  for (std::size_t i = slaves_.size(); i-- > 0;) {
    try {
      link_.send(slaves_[i].id, wire::Channel::control, {wire::Ping{}, {}}, Clock::now());
    } catch (const PeerLost&) {
      drop(i);
    }
  }
}

void Roster::handle_newcomer(const wire::ServerLink::From& from) {
  const std::size_t index = find(from.peer);
  if (const auto* hello = std::get_if<wire::Hello>(&from.envelope.message)) {
    admit(from, *hello);
  } else if (std::holds_alternative<wire::Attach>(from.envelope.message) && index < slaves_.size()) {
    seen_[index] = {Clock::now(), true};
  } else if (std::holds_alternative<wire::Bye>(from.envelope.message) && index < slaves_.size()) {
    drop(index);
  }
}

bool Roster::gather(int count, const std::atomic<bool>& stop, const std::function<void()>& changed) {
  changed();
  while (attached() < count) {
    if (stop) return false;
    const std::size_t before = slaves_.size();
    if (const auto from = link_.receive(Clock::now() + kTick)) {
      if (from->rejected.empty()) handle_newcomer(*from);
    } else {
      drop_vanished();
    }
    if (slaves_.size() != before) changed();
  }
  std::vector<std::size_t> order(slaves_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return slaves_[a].name < slaves_[b].name; });
  std::vector<SlaveInfo> sorted;
  for (const std::size_t i : order) {
    // Whoever said hello but never attached comes too late.
    if (seen_[i].attached) {
      sorted.push_back(slaves_[i]);
    } else {
      turn_away(slaves_[i].id, fmt::format("run {} has all its slaves", run_));
    }
  }
  slaves_ = std::move(sorted);
  seen_.assign(slaves_.size(), {Clock::now(), true});
  return true;
}

void Roster::send(std::size_t slave, const wire::Envelope& envelope) {
  try {
    link_.send(slaves_[slave].id, wire::Channel::data, envelope, Clock::now() + kSendPatience);
  } catch (const PeerLost& error) {
    bury(slave, fmt::format("is gone (its connection closed): {}", error.what()));
  }
  seen_[slave].progress = Clock::now();
}

void Roster::ping_all() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kPingInterval;
  for (std::size_t slave = 0; slave < slaves_.size(); ++slave) {
    try {
      link_.send(slaves_[slave].id, wire::Channel::control, {wire::Ping{}, {}}, Clock::now());
    } catch (const PeerLost&) {
      bury(slave, "is gone (its connection closed or answers no more)");
    }
  }
}

/// A slave that is gone may have said why: its last words lie in the queue.
void Roster::bury(std::size_t slave, const std::string& how) {
  while (const auto from = link_.receive(Clock::now())) {
    if (find(from->peer) != slave || !from->rejected.empty()) continue;
    const wire::Message& message = from->envelope.message;
    if (const auto* failed = std::get_if<wire::Failed>(&message)) lost(slaves_[slave], "failed: " + failed->reason);
    if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
  }
  lost(slaves_[slave], how);
}

void Roster::reject_control(std::size_t slave, const wire::Message& message) {
  if (const auto* bye = std::get_if<wire::Bye>(&message)) lost(slaves_[slave], "left the run: " + bye->reason);
  if (std::holds_alternative<wire::Hello>(message)) {
    // A Hello that crossed our Welcome is no news; the slave repeats it until it is answered.
    return;
  }
  lost(slaves_[slave], fmt::format("broke the protocol: {} on its control connection", wire::name_of(message)));
}

void Roster::judge_silence(const std::vector<std::size_t>& awaited, std::chrono::milliseconds patience) {
  for (const std::size_t slave : awaited) {
    if (Clock::now() - seen_[slave].progress > patience) {
      lost(slaves_[slave],
           fmt::format("hangs: no answer for {:.0f} s", std::chrono::duration<double>(patience).count()));
    }
  }
}

std::optional<Roster::Arrival> Roster::receive(const std::vector<std::size_t>& awaited,
                                               std::chrono::milliseconds patience, wire::Deadline deadline) {
  while (true) {
    ping_all();
    auto from = link_.receive(std::min(deadline, Clock::now() + kTick));
    if (!from) {
      judge_silence(awaited, patience);
      if (Clock::now() >= deadline) return std::nullopt;
      continue;
    }
    const std::size_t slave = find(from->peer);
    if (slave == slaves_.size()) {
      if (from->rejected.empty() && std::holds_alternative<wire::Hello>(from->envelope.message)) {
        turn_away(from->peer, fmt::format("run {} has all its slaves; this one waits for the next", run_));
      }
      continue;
    }
    if (!from->rejected.empty()) lost(slaves_[slave], "broke the protocol: " + from->rejected);
    if (from->channel == wire::Channel::control) {
      reject_control(slave, from->envelope.message);
      continue;
    }
    seen_[slave].progress = Clock::now();
    if (std::holds_alternative<wire::Attach>(from->envelope.message)) continue;
    if (std::holds_alternative<wire::Ping>(from->envelope.message)) continue;
    return Arrival{slave, std::move(from->envelope)};
  }
}

void Roster::dismiss(const std::string& reason) {
  for (const SlaveInfo& slave : slaves_) {
    try {
      link_.send(slave.id, wire::Channel::control, {wire::Bye{reason}, {}}, Clock::now() + kTick);
    } catch (const PeerLost&) {
      // Gone already.
    }
  }
  slaves_.clear();
  seen_.clear();
}

}  // namespace convoy
