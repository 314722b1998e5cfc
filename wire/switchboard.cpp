#include "wire/switchboard.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;

/// A slave says Hello every half second, and every 2 s after it was refused.
constexpr auto kStillAsking = 3s;
constexpr auto kHousekeeping = 250ms;
/// How long all lines wait for a slave whose queue of 8192 messages is full; it is lost afterwards.
constexpr auto kFullQueue = 2s;
/// The bytes that may wait for a run that does not receive. Slaves send no more than the maps of a step before they
/// need something of their master.
constexpr std::size_t kMostUnread = std::size_t{1} << 30;
constexpr std::size_t kMostAsking = 1024;
constexpr std::size_t kMostRefusals = 256;
constexpr std::size_t kBytesBesidePayload = 512;

struct Outgoing {
  std::string peer;
  Channel channel = Channel::control;
  Envelope envelope;
};

struct Asking {
  std::string id;
  Switchboard::Caller caller;
  Deadline heard;
};

}  // namespace

struct Switchboard::Inbox {
  std::set<std::string> names;
  std::deque<ServerLink::From> messages;
  std::size_t bytes = 0;
  std::map<std::string, std::string> said_hello;  ///< name of each slave, by the id of its connections
  std::set<std::string> joined;                   ///< names of slaves that have sent data and are there
  std::condition_variable arrived;

  /// A slave is gone, or was sent away.
  void part(const std::string& peer) {
    if (const auto name = said_hello.find(peer); name != said_hello.end()) joined.erase(name->second);
  }
};

struct Switchboard::State {
  State(const std::string& where, const LinkOptions& options, Objection objects)
      : link(where, options), endpoint(link.endpoint()), objection(std::move(objects)) {}

  using InboxPtr = std::shared_ptr<Inbox>;

  void run();
  void send_all(std::deque<Outgoing> all);
  void take(ServerLink::From from);
  void take_hello(ServerLink::From from, const Hello& hello);
  void keep_house();
  void lose(const std::string& peer);
  void refuse(const std::string& who, const std::string& why);
  void deliver(Inbox& inbox, ServerLink::From&& from);

  TcpServerLink link;  ///< of the switchboard's thread alone, but for wake()
  const std::string endpoint;
  const Objection objection;

  mutable std::mutex mutex;  ///< guards all that follows
  std::deque<Outgoing> outgoing;
  std::vector<InboxPtr> lines;
  std::map<std::string, InboxPtr> peers;  ///< the line of each slave, by the id of its connections
  std::map<std::string, Asking> asking;   ///< by name
  std::vector<Refusal> refusals;
  std::exception_ptr failure;
  bool stop = false;

  std::thread thread;
};

// ---- the switchboard's thread --------------------------------------------------------------------------------------

void Switchboard::State::run() {
  try {
    for (auto next_house = Clock::now();;) {
      std::deque<Outgoing> all;
      bool last = false;
      {
        const std::lock_guard lock(mutex);
        all.swap(outgoing);
        last = stop;
      }
      send_all(std::move(all));
      if (last) return;
      if (auto from = link.receive(Clock::now() + kHousekeeping)) take(*std::move(from));
      if (Clock::now() < next_house) continue;
      next_house = Clock::now() + kHousekeeping;
      keep_house();
    }
  } catch (...) {
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
    peers.clear();  // so that no run waits for an answer
  }
}

void Switchboard::State::send_all(std::deque<Outgoing> all) {
  for (const Outgoing& each : all) {
    try {
      link.send(each.peer, each.channel, each.envelope, Clock::now() + kFullQueue);
    } catch (const PeerLost&) {
      const std::lock_guard lock(mutex);
      lose(each.peer);
    }
  }
}

void Switchboard::State::take(ServerLink::From from) {
  const std::lock_guard lock(mutex);
  if (const auto peer = peers.find(from.peer); peer != peers.end()) {
    return deliver(*peer->second, std::move(from));
  }
  if (!from.rejected.empty()) {
    if (!from.address.empty()) refuse(from.address, from.rejected);
    return;
  }
  // What a slave sends after its run has ended is of no use to another run.
  const auto* hello = std::get_if<Hello>(&from.envelope.message);
  if (hello != nullptr && from.channel == Channel::control) take_hello(from, Hello(*hello));
}

void Switchboard::State::take_hello(ServerLink::From from, const Hello& hello) {
  for (const InboxPtr& line : lines) {
    if (!line->names.contains(hello.name)) continue;
    asking.erase(hello.name);
    peers[from.peer] = line;
    line->said_hello[from.peer] = hello.name;
    return deliver(*line, std::move(from));
  }
  const auto other = asking.find(hello.name);
  const auto now = Clock::now();
  std::string why = objection ? objection(from, hello) : "";
  if (why.empty() && other != asking.end() && other->second.id != from.peer &&
      now - other->second.heard < kStillAsking) {
    why = fmt::format("the name '{}' is taken; start this slave with another --name", hello.name);
  }
  if (why.empty() && other == asking.end() && asking.size() >= kMostAsking) why = "too many slaves wait to join";
  if (!why.empty()) {
    outgoing.push_back({from.peer, Channel::control, {Refused{why}, {}}});
    return refuse(fmt::format("slave {} at {}", hello.name, from.address), why);
  }
  asking[hello.name] = {
      .id = from.peer, .caller = {.name = hello.name, .device = hello.device, .key = from.key}, .heard = now};
}

/// For take_refusals().
void Switchboard::State::refuse(const std::string& who, const std::string& why) {
  if (refusals.size() < kMostRefusals) refusals.push_back({who, why});
}

void Switchboard::State::deliver(Inbox& inbox, ServerLink::From&& from) {
  const std::size_t bytes = kBytesBesidePayload + from.envelope.payload.size();
  if (inbox.bytes + bytes > kMostUnread) return lose(from.peer);
  inbox.bytes += bytes;
  if (from.channel == Channel::data) inbox.joined.insert(inbox.said_hello[from.peer]);
  inbox.messages.push_back(std::move(from));
  inbox.arrived.notify_one();
}

/// From now on, a send to this slave fails.
void Switchboard::State::lose(const std::string& peer) {
  const auto found = peers.find(peer);
  if (found == peers.end()) return;
  found->second->part(peer);
  peers.erase(found);
}

void Switchboard::State::keep_house() {
  const std::vector<Refusal> turned_away = link.take_refusals();
  const std::lock_guard lock(mutex);
  for (const Refusal& each : turned_away) refuse(each.address, each.why);
  const auto now = Clock::now();
  std::erase_if(asking, [&](const auto& each) { return now - each.second.heard >= kStillAsking; });
}

// ---- the switchboard -----------------------------------------------------------------------------------------------

Switchboard::Switchboard(const std::string& endpoint, const LinkOptions& options, Objection objection)
    : state_(std::make_shared<State>(endpoint, options, std::move(objection))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Switchboard::~Switchboard() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->link.wake();
  state_->thread.join();
}

std::string Switchboard::endpoint() const { return state_->endpoint; }

std::vector<Switchboard::Caller> Switchboard::waiting() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->failure) std::rethrow_exception(state_->failure);
  std::vector<Caller> callers;
  const auto now = Clock::now();
  for (const auto& [name, each] : state_->asking) {
    if (now - each.heard < kStillAsking) callers.push_back(each.caller);
  }
  return callers;
}

std::vector<Refusal> Switchboard::take_refusals() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->refusals, {});
}

std::unique_ptr<Switchboard::Line> Switchboard::line(std::set<std::string> names) {
  auto inbox = std::make_shared<Inbox>();
  inbox->names = std::move(names);
  const std::lock_guard lock(state_->mutex);
  for (const auto& other : state_->lines) {
    for (const std::string& name : inbox->names) invariant(!other->names.contains(name), "a slave has one line");
  }
  state_->lines.push_back(inbox);
  return std::make_unique<Line>(state_, std::move(inbox));
}

// ---- a line --------------------------------------------------------------------------------------------------------

class Switchboard::Line::Link final : public ServerLink {
 public:
  Link(std::shared_ptr<State> state, std::shared_ptr<Inbox> inbox)
      : state_(std::move(state)), inbox_(std::move(inbox)) {}

  std::string endpoint() const override { return state_->endpoint; }

  std::optional<From> receive(Deadline deadline) override {
    constexpr auto kLongestWait = 1h;  // the end of time would overflow in another clock
    std::unique_lock lock(state_->mutex);
    const auto until = std::min(deadline, Clock::now() + kLongestWait);
    if (!inbox_->arrived.wait_until(lock, until, [this] { return !inbox_->messages.empty(); })) return std::nullopt;
    From from = std::move(inbox_->messages.front());
    inbox_->messages.pop_front();
    inbox_->bytes -= kBytesBesidePayload + from.envelope.payload.size();
    return from;
  }

  void send(const std::string& peer, Channel channel, const Envelope& envelope, Deadline /*deadline*/) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->peers.contains(peer)) throw PeerLost(peer, "it is not connected");
      const Message& message = envelope.message;
      if (std::holds_alternative<Bye>(message) || std::holds_alternative<Refused>(message)) inbox_->part(peer);
      state_->outgoing.push_back({peer, channel, envelope});
    }
    state_->link.wake();
  }

  std::vector<Refusal> take_refusals() override { return {}; }  // the switchboard tells them

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<Inbox> inbox_;
};

Switchboard::Line::~Line() {
  const std::lock_guard lock(state_->mutex);
  std::erase(state_->lines, inbox_);
  std::erase_if(state_->peers, [this](const auto& each) { return each.second == inbox_; });
}

std::unique_ptr<ServerLink> Switchboard::Line::listen(const std::string& /*endpoint*/, const LinkOptions& /*options*/) {
  return std::make_unique<Link>(state_, inbox_);
}

std::unique_ptr<ClientLink> Switchboard::Line::connect(const std::string& /*endpoint*/, const LinkOptions& /*options*/,
                                                       int /*peer_port*/) {
  throw BrokenInvariant("a line of a switchboard is a master's, which connects to nobody");
}

std::vector<std::string> Switchboard::Line::absent() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  std::ranges::set_difference(inbox_->names, inbox_->joined, std::back_inserter(names));
  return names;
}

}  // namespace convoy::wire
