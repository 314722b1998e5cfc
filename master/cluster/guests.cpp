#include "master/cluster/guests.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Clock;

/// A slave is refused after kMostLosses losses in a row, until kForgive has passed since the last of them.
constexpr int kMostLosses = 3;
constexpr auto kForgive = 5min;
constexpr std::size_t kMostRemembered = 4096;
constexpr std::size_t kMostGuests = 256;
/// A guest that is not ready within this time is dropped.
constexpr auto kReadyPatience = 20s;
constexpr std::size_t kLongestDevice = 200;
/// A slave that is turned away tries again and again, so the user is told of each refusal once in kTellAgain, and of at
/// most kMostTold different refusals in that time.
constexpr auto kTellAgain = 60s;
constexpr std::size_t kMostTold = 64;

bool says(const wire::Hello& hello, const char* capability) {
  return std::ranges::find(hello.capabilities, capability) != hello.capabilities.end();
}

}  // namespace

bool reached(wire::ServerLink& link, const std::string& id, const wire::Message& message) {
  try {
    link.send(id, wire::Channel::control, {message, {}}, Clock::now());
    return true;
  } catch (const PeerLost&) {
    return false;
  }
}

Guests::Guests(wire::ServerLink& link, std::string run, KeyRing* keys, std::function<void(const std::string&)> notice)
    : link_(link), run_(std::move(run)), keys_(keys), notice_(std::move(notice)) {}

std::vector<SlaveInfo> Guests::all() const {
  std::vector<SlaveInfo> infos;
  for (const Guest& guest : guests_) infos.push_back(guest.info);
  return infos;
}

int Guests::ready() const { return static_cast<int>(std::ranges::count(guests_, true, &Guest::ready)); }

std::optional<std::string> objection_to(const wire::ServerLink::From& from, const wire::Hello& hello, bool paced,
                                        KeyRing* keys) {
  if (hello.version != wire::kProtocolVersion) {
    return fmt::format(
        "the master speaks version {} of the protocol, this slave version {}; run the same release of Convoy on both",
        wire::kProtocolVersion, hello.version);
  }
  if (const auto fault = fault_of_name(hello.name)) return *fault + "; start this slave with another --name";
  if (is_master(hello.name)) {
    return fmt::format("the name '{}' is taken; start this slave with another --name", hello.name);
  }
  if (says(hello, wire::kPaced) != paced) {
    return paced
               ? "this run is a measurement on paced devices, which compute nothing, and this slave's device computes; "
                 "start it with --device paced:GFLOPS, or the master with a device that computes"
               : "this slave's device is paced and computes nothing, and this run computes; start the slave with "
                 "another --device, or the master with --device paced:GFLOPS for a measurement";
  }
  // Other slaves could not connect to it without a public key of its own.
  if ((keys != nullptr) != wire::is_key(hello.peer_key) || (keys == nullptr && !hello.peer_key.empty())) {
    return "its public key towards other slaves is missing or damaged; run the same release of Convoy on both";
  }
  const std::string wrong_name = keys != nullptr ? keys->objection_to_name(from.key, hello.name) : "";
  return wrong_name.empty() ? std::nullopt : std::optional(wrong_name);
}

/// Returns the reason for refusing a slave, or nothing if it may join.
std::optional<std::string> Guests::objection(const wire::ServerLink::From& from, const wire::Hello& hello,
                                             const std::vector<SlaveInfo>& members) const {
  if (auto reason = objection_to(from, hello, paced_, keys_)) return reason;
  if (auto reason = objection_by_key(from, members)) return reason;
  const auto same_name = [&](const SlaveInfo& slave) { return slave.name == hello.name && slave.id != from.peer; };
  if (std::ranges::any_of(members, same_name) || std::ranges::any_of(guests_, same_name, &Guest::info)) {
    return fmt::format("the name '{}' is taken; start this slave with another --name", hello.name);
  }
  if (const auto banned = banned_.find(hello.name); banned != banned_.end()) return banned->second;
  if (welcome_ && !welcome_->contains(hello.name)) return unwelcome_;
  if (!needed_ && lost_too_often(hello.name)) {
    return fmt::format("run {} has lost {} {} times in a row; it may join again in {:.0f} minutes, or the next run",
                       run_, hello.name, losses_.at(hello.name).count,
                       std::chrono::duration<double>(kForgive).count() / 60.0);
  }
  return std::nullopt;
}

std::optional<std::string> Guests::objection_by_key(const wire::ServerLink::From& from,
                                                    const std::vector<SlaveInfo>& members) const {
  if (keys_ == nullptr || !keys_->is_one_time(from.key)) return std::nullopt;
  const auto same_key = [&](const SlaveInfo& slave) { return slave.key == from.key && slave.id != from.peer; };
  if (std::ranges::any_of(members, same_key) || std::ranges::any_of(guests_, same_key, &Guest::info)) {
    return "a one-time key is for one slave, and another slave is here with it; make a further key with "
           "`convoy-master key add`";
  }
  return std::nullopt;
}

bool Guests::lost_too_often(const std::string& name) const {
  const auto losses = losses_.find(name);
  return losses != losses_.end() && losses->second.count >= kMostLosses &&
         Clock::now() - losses->second.last < kForgive;
}

/// Makes room in a full lobby: drops a guest that has not attached, from the address with the most guests of this kind.
/// Returns false if there is none.
bool Guests::make_room() {
  if (guests_.size() < kMostGuests) return true;
  std::map<std::string, int> silent;
  for (const Guest& guest : guests_) {
    if (!guest.attached) ++silent[guest.info.address];
  }
  if (silent.empty()) return false;
  const std::string& address =
      std::ranges::max_element(silent, {}, [](const auto& each) { return each.second; })->first;
  const auto guest =
      std::ranges::find_if(guests_, [&](const Guest& each) { return !each.attached && each.info.address == address; });
  reached(link_, guest->info.id, wire::Refused{"too many slaves wait to join"});
  guests_.erase(guest);
  return true;
}

/// Uses up the key of a slave that joins, if it is a one-time key. Returns false if the slave was refused instead.
bool Guests::use_key(const wire::ServerLink::From& from) {
  if (keys_ == nullptr) return true;
  try {
    keys_->join(from.key);
    return true;
  } catch (const Error& error) {
    reached(link_, from.peer, wire::Refused{error.what()});
    tell_refusal({from.address, error.what()});
    return false;
  }
}

void Guests::admit(const wire::ServerLink::From& from, const wire::Hello& hello,
                   const std::vector<SlaveInfo>& members) {
  if (const auto reason = objection(from, hello, members)) {
    reached(link_, from.peer, wire::Refused{*reason});
    tell_refusal({fmt::format("slave {} at {}", printable(hello.name, kLongestName), from.address), *reason});
    return;
  }
  const SlaveInfo info{.id = from.peer,
                       .name = hello.name,
                       .device = printable(hello.device, kLongestDevice),
                       .threads = static_cast<int>(hello.threads),
                       .memory = hello.memory,
                       .memory_factor = hello.memory_factor,
                       .filter_block = static_cast<int>(hello.filter_block),
                       .sixteen_bits = says(hello, wire::kSixteenBits),
                       .same_bits = says(hello, wire::kSameBits),
                       .keeps_images = says(hello, wire::kKeepsImages),
                       .address = from.address,
                       .peer_port = static_cast<int>(hello.peer_port),
                       .peer_key = hello.peer_key,
                       .key = from.key};
  const bool known = std::ranges::any_of(guests_, [&](const Guest& guest) { return guest.info.id == info.id; });
  if (!known && !make_room()) {
    reached(link_, from.peer, wire::Refused{"too many slaves wait to join"});
    return;
  }
  if (!use_key(from)) return;
  if (!reached(link_, from.peer, wire::Welcome{wire::kProtocolVersion, run_}) || known) return;
  guests_.push_back({.info = info, .since = Clock::now()});
}

/// Asks a guest for an answer, while the run goes on. A guest that does not answer never becomes a member.
void Guests::probe(Guest& guest) {
  guest.attached = true;
  try {
    link_.send(guest.info.id, wire::Channel::data, {wire::Probe{0}, {}}, Clock::now());
  } catch (const PeerLost&) {
    // The guest has gone, and greet() drops it.
  }
}

void Guests::take(const wire::ServerLink::From& from, const std::vector<SlaveInfo>& members) {
  const auto of_peer = [&](const Guest& guest) { return guest.info.id == from.peer; };
  try {
    if (!from.rejected.empty()) {
      if (!from.address.empty()) tell_refusal({from.address, from.rejected});
    } else if (const auto* hello = std::get_if<wire::Hello>(&from.envelope.message)) {
      admit(from, *hello, members);
    } else {
      take_from_guest(from);
    }
  } catch (const std::exception& error) {
    std::erase_if(guests_, of_peer);
    tell_refusal({from.address.empty() ? "a slave" : from.address, error.what()});
  }
}

void Guests::take_from_guest(const wire::ServerLink::From& from) {
  const auto guest = std::ranges::find_if(guests_, [&](const Guest& each) { return each.info.id == from.peer; });
  if (guest == guests_.end()) return;
  const wire::Message& message = from.envelope.message;
  if (std::holds_alternative<wire::Attach>(message)) {
    if (!guest->attached) probe(*guest);
  } else if (std::holds_alternative<wire::Probed>(message)) {
    guest->ready = guest->attached;
  } else if (const auto* failed = std::get_if<wire::Failed>(&message)) {
    tell_refusal(
        {fmt::format("slave {} at {}", guest->info.name, guest->info.address), "it failed: " + failed->reason});
    reached(link_, from.peer, wire::Bye{"the slave failed before it took part"});
    guests_.erase(guest);
  } else if (std::holds_alternative<wire::Bye>(message)) {
    guests_.erase(guest);
  } else if (std::holds_alternative<wire::Leaving>(message)) {
    reached(link_, from.peer, wire::Bye{"the run did not need it yet"});
    guests_.erase(guest);
  }
}

void Guests::tell_refusal(const wire::Refusal& refusal) {
  const auto now = Clock::now();
  std::erase_if(told_, [&](const auto& each) { return each.second <= now; });
  const std::string text = fmt::format("turned away {}: {}", refusal.address, printable(refusal.why, kMostWords));
  if (notice_ && told_.size() < kMostTold && told_.emplace(text, now + kTellAgain).second) notice_(text);
}

/// Tells what has happened to keys, and drops the guests whose keys are not admitted any more.
void Guests::watch_keys(const std::vector<SlaveInfo>& members) {
  if (keys_ == nullptr) return;
  std::set<std::string> present;
  for (const SlaveInfo& member : members) present.insert(member.key);
  for (const Guest& guest : guests_) present.insert(guest.info.key);
  keys_->set_present(present);
  std::erase_if(guests_, [&](const Guest& guest) {
    const std::string why = keys_->objection(guest.info.key);
    if (why.empty()) return false;
    reached(link_, guest.info.id, wire::Bye{why});
    tell_refusal({fmt::format("slave {} at {}", guest.info.name, guest.info.address), why});
    return true;
  });
  for (const std::string& text : keys_->take_notices()) {
    if (notice_) notice_(text);
  }
}

void Guests::greet(const std::vector<SlaveInfo>& members) {
  watch_keys(members);
  for (const wire::Refusal& each : link_.take_refusals()) tell_refusal(each);
  const auto now = Clock::now();
  std::erase_if(guests_, [&](const Guest& guest) {
    if (guest.ready || now - guest.since < kReadyPatience) return !reached(link_, guest.info.id, wire::Ping{});
    reached(link_, guest.info.id, wire::Bye{fmt::format("the slave did not answer for {} s", kReadyPatience.count())});
    return true;
  });
}

std::vector<SlaveInfo> Guests::take_in(std::size_t most) {
  std::ranges::stable_sort(guests_, {}, [this](const Guest& guest) {
    const auto losses = losses_from_.find(guest.info.address);
    return losses == losses_from_.end() ? 0 : losses->second.count;
  });
  std::vector<SlaveInfo> taken;
  std::erase_if(guests_, [&](const Guest& guest) {
    if (!guest.ready || taken.size() == most) return false;
    taken.push_back(guest.info);
    return true;
  });
  return taken;
}

void Guests::dismiss(const std::string& reason) {
  for (const Guest& guest : guests_) reached(link_, guest.info.id, wire::Bye{reason});
  guests_.clear();
}

void Guests::admit_only(std::set<std::string> names, std::string reason) {
  welcome_ = std::move(names);
  unwelcome_ = std::move(reason);
  std::erase_if(guests_, [this](const Guest& guest) {
    if (welcome_->contains(guest.info.name)) return false;
    reached(link_, guest.info.id, wire::Bye{unwelcome_});
    return true;
  });
}

void Guests::count_loss(const std::string& name, const std::string& address) {
  const auto now = Clock::now();
  const auto count = [now](std::map<std::string, Losses>& losses, const std::string& of) {
    std::erase_if(losses, [&](const auto& each) { return now - each.second.last >= kForgive; });
    if (losses.size() >= kMostRemembered) return;
    losses[of].last = now;
    ++losses[of].count;
  };
  count(losses_, name);
  count(losses_from_, address);
}

}  // namespace convoy
