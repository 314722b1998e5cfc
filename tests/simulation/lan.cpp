#include "tests/simulation/lan.hpp"

#include <algorithm>

#include "wire/codec.hpp"

namespace convoy::simulation {
namespace {

using namespace std::chrono_literals;
using wire::Channel;

// As ZeroMQ is set in wire/.
constexpr Time kHeartbeat = 250ms;
constexpr Time kHeartbeatTimeout = 2s;
constexpr Time kFirstRetry = 100ms;
constexpr Time kLongestRetry = 2s;
constexpr Time kLinger = 300ms;

std::pair<std::string, std::string> pair_of(const std::string& one, const std::string& two) {
  return one < two ? std::pair(one, two) : std::pair(two, one);
}

}  // namespace

Packet packet_of(const wire::Envelope& envelope, const std::vector<std::byte>& garbage) {
  return {garbage.empty() ? wire::encode(envelope.message) : garbage, envelope.payload,
          garbage.empty() ? wire::name_of(envelope.message) : "garbage"};
}

wire::Envelope envelope_of(Packet&& packet) {
  wire::Envelope envelope{wire::decode(packet.header), {}};
  const bool piece = std::holds_alternative<wire::Piece>(envelope.message);
  if (piece == packet.payload.empty()) {
    fail("{} came {} a payload frame", name_of(envelope.message), piece ? "without" : "with");
  }
  envelope.payload = std::move(packet.payload);
  return envelope;
}

Time Lan::drawn(Time least, Time most) {
  return least + std::chrono::duration_cast<Time>((most - least) * static_cast<double>(random_.uniform()));
}

// ---- connections ---------------------------------------------------------------------------------------------------

bool Lan::listen(Program& program, int port, End& end) {
  return ports_.try_emplace({program.machine, port}, Listening{&program, &end}).second;
}

void Lan::close_port(Program& program, int port) {
  const auto found = ports_.find({program.machine, port});
  if (found != ports_.end() && found->second.program == &program) ports_.erase(found);
}

ConnectionPtr Lan::connect(Program& program, End& end, Channel channel, const std::pair<std::string, int>& address,
                           std::string id) {
  auto connection = std::make_shared<Connection>();
  connection->id = std::move(id);
  connection->number = ++made_;
  connection->channel = channel;
  connection->address = address;
  connection->ends[connector] = &end;
  connection->programs[connector] = &program;
  connection->delay = drawn(20us, longest_ * 2 / 3);
  connection->retry = kFirstRetry;
  std::erase_if(connections_, [](const auto& each) { return each.expired(); });
  connections_.push_back(connection);
  scheduler_.at(scheduler_.now(), [this, connection] { attempt(connection); });
  return connection;
}

/// When the path between the ends is free again; in the past where it is.
Time Lan::path_clear(const Connection& connection) const {
  const std::string& one = connection.programs[connector]->machine;
  const std::string& two = connection.address.first;
  if (vanished_.contains(one) || vanished_.contains(two)) return Time::max();
  const auto parted = parted_until_.find(pair_of(one, two));
  return parted == parted_until_.end() ? Time{} : parted->second;
}

/// Whether heartbeats and handshakes pass.
bool Lan::passes(const Connection& connection) const {
  if (path_clear(connection) > scheduler_.now()) return false;
  return std::ranges::none_of(connection.programs, [](const Program* program) {
    return program != nullptr && (!program->alive || program->actor->suspended());
  });
}

void Lan::attempt(const ConnectionPtr& connection) {
  Connection& it = *connection;
  if (it.ends[connector] == nullptr || it.stands[connector]) return;
  const auto found = ports_.find(it.address);
  if (found == ports_.end() || !passes(it) || found->second.program->actor->suspended()) {
    it.retry = std::min(it.retry * 2, kLongestRetry);
    scheduler_.after(drawn(it.retry / 2, it.retry), [this, connection] { attempt(connection); });
    return;
  }
  scheduler_.after(drawn(it.delay * 6, it.delay * 9), [this, connection] { establish(connection); });
}

void Lan::establish(const ConnectionPtr& connection) {
  Connection& it = *connection;
  if (it.ends[connector] == nullptr || it.stands[connector]) return;
  const auto found = ports_.find(it.address);
  if (found == ports_.end() || !passes(it)) return attempt(connection);
  it.ends[listener] = found->second.end;
  it.programs[listener] = found->second.program;
  it.stands = {true, true};
  it.ways = {};
  it.retry = kFirstRetry;
  it.heard = scheduler_.now();
  ++it.session;
  log_.line("{} connects to {}:{}, connection {}", it.programs[connector]->machine, it.address.first, it.address.second,
            it.number);
  it.ends[listener]->stands(it);
  it.ends[connector]->stands(it);
  for (Packet& packet : std::exchange(it.early, {})) send(connection, connector, std::move(packet));
  if (it.channel == Channel::control) {
    scheduler_.after(kHeartbeat, [this, connection, session = it.session] { beat(connection, session); });
  }
}

/// Control connections have heartbeats. Where none passes for too long, each side gives the connection up; one that
/// stood still does when it goes on.
void Lan::beat(const ConnectionPtr& connection, std::uint64_t session) {
  Connection& it = *connection;
  if (it.session != session || (!it.stands[connector] && !it.stands[listener])) return;
  if (passes(it) && it.stands[connector] && it.stands[listener]) it.heard = scheduler_.now();
  if (scheduler_.now() - it.heard > kHeartbeatTimeout) {
    for (const Side side : {listener, connector}) {
      const Program* program = it.programs[side];
      if (it.stands[side] && program->alive && !program->actor->suspended()) break_end(connection, side);
    }
    if (it.session != session) return;
  }
  scheduler_.after(kHeartbeat, [this, connection, session] { beat(connection, session); });
}

void Lan::break_end(const ConnectionPtr& connection, Side side) {
  Connection& it = *connection;
  if (!it.stands[side]) return;
  it.stands[side] = false;
  log_.line("connection {} breaks at the {}", it.number, side == connector ? "connector" : "listener");
  if (it.ends[side] != nullptr) it.ends[side]->broke(it);
  if (side == listener) {
    it.ends[listener] = nullptr;
    it.ways[connector].flying.clear();
  }
  if (side == connector) {
    ++it.session;
    // The listener hears of it; what it had sent is lost.
    it.ways[listener] = {};
    if (it.stands[listener]) {
      const auto old = it.session;
      scheduler_.after(it.delay, [this, connection, old] {
        if (connection->session == old) break_end(connection, listener);
      });
    }
    if (it.ends[connector] != nullptr) {
      scheduler_.after(drawn(kFirstRetry, kFirstRetry * 2), [this, connection] {
        if (connection->stands[listener]) break_end(connection, listener);  // the new session replaces the old one
        attempt(connection);
      });
    }
  }
}

void Lan::close(const ConnectionPtr& connection, Side side) {
  Connection& it = *connection;
  it.ends[side] = nullptr;
  if (!it.stands[side]) return;
  it.stands[side] = false;
  const Side to = other(side);
  it.ways[to] = {};
  if (!it.stands[to]) return;
  it.ways[side].ends = true;
  if (it.ways[side].flying.empty()) it.ways[side].last = std::max(it.ways[side].last, scheduler_.now() + it.delay);
  schedule(connection, side);
  // Lingering has an end: what does not arrive until then is lost.
  scheduler_.after(kLinger, [this, connection, side, to, session = it.session] {
    Connection& late = *connection;
    if (late.session != session || path_clear(late) > scheduler_.now()) return;
    late.ways[side].flying.clear();
    break_end(connection, to);
  });
}

void Lan::close_all(End& end) {
  for (const auto& weak : std::vector(connections_)) {
    const ConnectionPtr connection = weak.lock();
    if (!connection) continue;
    for (const Side side : {connector, listener}) {
      if (connection->ends[side] == &end) close(connection, side);
    }
  }
}

// ---- messages ------------------------------------------------------------------------------------------------------

std::size_t Lan::queued(const Connection& connection, Side from) const {
  const End* end = connection.ends[other(from)];
  return connection.ways[from].flying.size() + (end != nullptr ? end->unread(connection) : 0);
}

void Lan::send(const ConnectionPtr& connection, Side from, Packet&& packet) {
  Connection& it = *connection;
  if (!it.stands[from]) {
    if (from == connector && it.ends[connector] != nullptr) it.early.push_back(std::move(packet));
    return;
  }
  if (!it.stands[other(from)]) return;  // it does not know yet that nobody hears it
  const Actor* actor = scheduler_.running();
  const Time sent = actor != nullptr ? actor->time() : scheduler_.now();
  // Now and then a packet is lost on the way, and comes when it is sent again.
  const bool lost = random_.below(200) == 0;
  const Time takes = lost ? drawn(it.delay * 5, 250ms) : drawn(it.delay / 2, it.delay * 3 / 2);
  Connection::Way& way = it.ways[from];
  way.last = std::max(way.last, sent + takes + Time(static_cast<Time::rep>(packet.payload.size()) * 10));
  way.flying.push_back({way.last, std::move(packet)});
  most_queued_ = std::max(most_queued_, queued(it, from));
  schedule(connection, from);
}

void Lan::schedule(const ConnectionPtr& connection, Side from) {
  Connection::Way& way = connection->ways[from];
  if (way.moves || (way.flying.empty() && !way.ends)) return;
  way.moves = true;
  const Time arrival = way.flying.empty() ? way.last : way.flying.front().arrival;
  scheduler_.at(arrival, [this, connection, from, session = connection->session] {
    if (connection->session != session) return;
    connection->ways[from].moves = false;
    move(connection, from);
  });
}

void Lan::move(const ConnectionPtr& connection, Side from) {
  Connection& it = *connection;
  Connection::Way& way = it.ways[from];
  if (!it.stands[other(from)]) return;
  const Time clear = path_clear(it);
  if (clear == Time::max()) return;
  if (clear > scheduler_.now()) {
    way.moves = true;
    scheduler_.at(clear + drawn(0ms, 400ms), [this, connection, from, session = it.session] {
      if (connection->session != session) return;
      connection->ways[from].moves = false;
      move(connection, from);
    });
    return;
  }
  while (!way.flying.empty() && way.flying.front().arrival <= scheduler_.now()) {
    Packet packet = std::move(way.flying.front().packet);
    way.flying.pop_front();
    it.ends[other(from)]->take(it, std::move(packet));
  }
  if (way.flying.empty() && way.ends) return break_end(connection, other(from));
  schedule(connection, from);
}

// ---- faults --------------------------------------------------------------------------------------------------------

void Lan::kill(Program& program, bool machine) {
  if (!program.alive) return;
  program.alive = false;
  log_.line("{} at {} dies{}", program.actor->name(), program.machine, machine ? " with its machine" : "");
  std::erase_if(ports_, [&](const auto& each) { return each.second.program == &program; });
  if (machine) vanished_.insert(program.machine);
  for (const auto& weak : connections_) {
    const ConnectionPtr connection = weak.lock();
    if (!connection) continue;
    for (const Side side : {connector, listener}) {
      if (connection->programs[side] != &program) continue;
      std::deque<Connection::Flying>& flying = connection->ways[side].flying;
      // What had not left the program is lost.
      const std::size_t left = random_.below(static_cast<std::uint32_t>(flying.size() + 1));
      flying.resize(left);
      if (machine) {
        connection->ends[side] = nullptr;
        connection->stands[side] = false;
      } else {
        close(connection, side);
      }
    }
  }
  program.actor->kill();
}

void Lan::part(const std::string& one, const std::string& two, Time time) {
  Time& until = parted_until_[pair_of(one, two)];
  until = std::max(until, scheduler_.now() + time);
  log_.line("nothing passes between {} and {} for {} ms", one, two,
            std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

void Lan::cut(const std::string& one, const std::string& two, Channel channel) {
  for (const auto& weak : std::vector(connections_)) {
    const ConnectionPtr connection = weak.lock();
    if (!connection || connection->channel != channel || !connection->stands[connector]) continue;
    if (pair_of(connection->programs[connector]->machine, connection->address.first) != pair_of(one, two)) continue;
    connection->ways = {};
    break_end(connection, listener);
    break_end(connection, connector);
  }
}

}  // namespace convoy::simulation
