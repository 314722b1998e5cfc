#include "tests/simulation/links.hpp"

#include <algorithm>
#include <charconv>

#include "wire/endpoint.hpp"

namespace convoy::simulation {
namespace {

using namespace std::chrono_literals;
using wire::Channel;

/// What a call takes.
constexpr Time kCall = 3us;
/// As the queues of ZeroMQ, in messages.
constexpr std::size_t kLongestQueue = 8192 + 32;

std::pair<std::string, int> machine_and_port(const std::string& endpoint) {
  const wire::Address address = wire::address_of_master(endpoint);
  return {address.host, address.port};
}

}  // namespace

std::unique_ptr<wire::ServerLink> SimulatedNetwork::listen(const std::string& endpoint, const wire::LinkOptions&) {
  return std::make_unique<SimulatedServerLink>(lan_, program_, endpoint, machine_and_port(endpoint).second);
}

std::unique_ptr<wire::ClientLink> SimulatedNetwork::connect(const std::string& endpoint, const wire::LinkOptions&,
                                                            int peer_port) {
  return std::make_unique<SimulatedClientLink>(lan_, program_, machine_and_port(endpoint), peer_port, distortion_);
}

// ---- what links share ----------------------------------------------------------------------------------------------

void SimulatedLink::begin_send() {
  actor().take_moment(kCall);
  if (!program_.alive || program_.sends_left < 0) return;
  if (program_.sends_left-- == 0) lan_.kill(program_, false);
}

void SimulatedLink::begin_receive() {
  actor().take_moment(kCall);
  actor().catch_up();
}

bool SimulatedLink::wait(wire::Deadline deadline) {
  if (Clock::now() >= deadline) return false;
  actor().wait(deadline);
  return true;
}

// ---- the master's link ---------------------------------------------------------------------------------------------

SimulatedServerLink::SimulatedServerLink(Lan& lan, Program& program, std::string endpoint, int port)
    : SimulatedLink(lan, program), endpoint_(std::move(endpoint)), port_(port) {
  if (!lan_.listen(program_, port_, *this)) fail("cannot listen at '{}': another program uses the port", endpoint_);
}

SimulatedServerLink::~SimulatedServerLink() {
  lan_.close_port(program_, port_);
  lan_.close_all(*this);
}

void SimulatedServerLink::stands(Connection& connection) {
  connections_[{connection.id, connection.channel}] = connection.shared_from_this();
}

void SimulatedServerLink::broke(Connection& connection) { connections_.erase({connection.id, connection.channel}); }

void SimulatedServerLink::take(Connection& from, Packet&& packet) {
  Inbox& inbox = inboxes_[{from.id, from.channel}];
  inbox.packets.push_back(std::move(packet));
  inbox.address = from.programs[connector]->machine;
  actor().wake();
}

std::size_t SimulatedServerLink::unread(const Connection& from) const {
  const auto inbox = inboxes_.find({from.id, from.channel});
  return inbox == inboxes_.end() ? 0 : inbox->second.packets.size();
}

std::optional<wire::ServerLink::From> SimulatedServerLink::receive(wire::Deadline deadline) {
  begin_receive();
  while (inboxes_.empty()) {
    if (!wait(deadline)) return std::nullopt;
  }
  auto inbox = inboxes_.begin();
  std::advance(inbox, lan_.random().below(static_cast<std::uint32_t>(inboxes_.size())));
  From from{.peer = inbox->first.first, .channel = inbox->first.second, .envelope = {}, .rejected = {}, .address = {}};
  if (from.channel == Channel::control) from.address = inbox->second.address;
  Packet packet = std::move(inbox->second.packets.front());
  inbox->second.packets.pop_front();
  if (inbox->second.packets.empty()) inboxes_.erase(inbox);
  lan_.log().line("master < {} {}", from.peer, packet.name);
  try {
    from.envelope = envelope_of(std::move(packet));
  } catch (const Error& error) {
    from.rejected = error.what();
  }
  return from;
}

void SimulatedServerLink::send(const std::string& peer, Channel channel, const wire::Envelope& envelope,
                               wire::Deadline deadline) {
  begin_send();
  if (dead()) return;
  while (true) {
    const auto found = connections_.find({peer, channel});
    if (found == connections_.end()) throw PeerLost(peer, "it is not connected");
    if (lan_.queued(*found->second, listener) < kLongestQueue) {
      lan_.log().line("master > {} {}", peer, wire::name_of(envelope.message));
      return lan_.send(found->second, listener, packet_of(envelope));
    }
    if (!wait(std::min(deadline, Clock::now() + 1ms))) {
      throw PeerLost(peer, "it stopped reading: its send queue stayed full until the deadline");
    }
  }
}

// ---- a slave's link ------------------------------------------------------------------------------------------------

SimulatedClientLink::SimulatedClientLink(Lan& lan, Program& program, const std::pair<std::string, int>& master,
                                         int peer_port, Distortion* distortion)
    : SimulatedLink(lan, program),
      master_(master),
      distortion_(distortion),
      port_(peer_port != 0 ? peer_port : lan.free_port()) {
  if (!lan_.listen(program_, port_, *this)) fail("cannot listen for other slaves at TCP port {}", port_);
  const std::string id = fmt::format("{}-{}", actor().name(), port_);
  control_ = lan_.connect(program_, *this, Channel::control, master, id);
  data_ = lan_.connect(program_, *this, Channel::data, master, id);
}

SimulatedClientLink::~SimulatedClientLink() {
  lan_.close_port(program_, port_);
  lan_.close_all(*this);
}

void SimulatedClientLink::stands(Connection& connection) {
  for (PeerConnection& each : peers_) {
    if (each.connection.get() == &connection) each.stands = true;
  }
  actor().wake();
}

void SimulatedClientLink::broke(Connection& connection) {
  if (&connection == control_.get()) master_broke_ = true;
  for (PeerConnection& each : peers_) {
    if (each.connection.get() != &connection) continue;
    each.stands = false;
    each.broke = true;
  }
  actor().wake();
}

void SimulatedClientLink::take(Connection& from, Packet&& packet) {
  if (&from == control_.get()) {
    control_inbox_.push_back(std::move(packet));
  } else if (&from == data_.get()) {
    data_inbox_.push_back(std::move(packet));
  } else {
    PeerInbox& inbox = peer_inboxes_[from.number];
    inbox.id = from.id;
    inbox.packets.push_back(std::move(packet));
  }
  actor().wake();
}

std::size_t SimulatedClientLink::unread(const Connection& from) const {
  if (&from == control_.get()) return control_inbox_.size();
  if (&from == data_.get()) return data_inbox_.size();
  const auto inbox = peer_inboxes_.find(from.number);
  return inbox == peer_inboxes_.end() ? 0 : inbox->second.packets.size();
}

void SimulatedClientLink::watch() {
  if (std::exchange(master_broke_, false)) throw PeerLost("master", "the connection to the master broke");
}

std::optional<wire::ClientLink::From> SimulatedClientLink::receive_from_master() {
  for (std::deque<Packet>* inbox : {&control_inbox_, &data_inbox_}) {
    if (inbox->empty()) continue;
    Packet packet = std::move(inbox->front());
    inbox->pop_front();
    lan_.log().line("{} < master {}", actor().name(), packet.name);
    const Channel channel = inbox == &control_inbox_ ? Channel::control : Channel::data;
    try {
      return From{.channel = channel, .envelope = envelope_of(std::move(packet)), .node = -1, .rejected = {}};
    } catch (const Error& error) {
      throw PeerLost("master", fmt::format("the master broke the protocol: {}", error.what()));
    }
  }
  return std::nullopt;
}

/// The next message with the current token; those with another are dropped.
std::optional<wire::ClientLink::From> SimulatedClientLink::receive_from_peer() {
  while (!peer_inboxes_.empty()) {
    auto inbox = peer_inboxes_.begin();
    std::advance(inbox, lan_.random().below(static_cast<std::uint32_t>(peer_inboxes_.size())));
    const std::string id = inbox->second.id;
    Packet packet = std::move(inbox->second.packets.front());
    inbox->second.packets.pop_front();
    if (inbox->second.packets.empty()) peer_inboxes_.erase(inbox);
    if (token_.empty() || !id.starts_with(token_ + "/")) continue;
    From from{.channel = Channel::peer, .envelope = {}, .node = -1, .rejected = {}};
    std::from_chars(id.data() + token_.size() + 1, id.data() + id.size(), from.node);
    lan_.log().line("{} < node {} {}", actor().name(), from.node, packet.name);
    try {
      from.envelope = envelope_of(std::move(packet));
    } catch (const Error& error) {
      from.rejected = error.what();
    }
    return from;
  }
  return std::nullopt;
}

std::optional<wire::ClientLink::From> SimulatedClientLink::receive(wire::Deadline deadline) {
  begin_receive();
  while (true) {
    if (auto from = receive_from_master()) return from;
    watch();
    if (auto from = receive_from_peer()) return from;
    for (PeerConnection& each : peers_) {
      if (std::exchange(each.broke, false)) throw wire::LinkBroken(each.peer.name);
    }
    if (!wait(deadline)) return std::nullopt;
  }
}

std::vector<Packet> SimulatedClientLink::packets_of(Channel channel, const wire::Envelope& envelope) {
  if (distortion_ != nullptr) return distortion_->distort(channel, envelope);
  std::vector<Packet> packets;
  packets.push_back(packet_of(envelope));
  return packets;
}

void SimulatedClientLink::await_room(const Connection& connection, wire::Deadline deadline) {
  while (lan_.queued(connection, connector) >= kLongestQueue) {
    watch();
    if (!wait(std::min(deadline, Clock::now() + 50ms))) {
      throw PeerLost("master", "the master stopped reading: the send queue stayed full until the deadline");
    }
  }
}

void SimulatedClientLink::send(Channel channel, const wire::Envelope& envelope, wire::Deadline deadline) {
  begin_send();
  if (dead()) return;
  watch();
  const ConnectionPtr& connection = channel == Channel::control ? control_ : data_;
  await_room(*connection, deadline);
  for (Packet& packet : packets_of(channel, envelope)) {
    lan_.log().line("{} > master {}", actor().name(), packet.name);
    lan_.send(connection, connector, std::move(packet));
  }
}

bool SimulatedClientLink::connected() {
  watch();
  return control_->stands[connector];
}

// ---- other slaves --------------------------------------------------------------------------------------------------

/// There are no keys here: the simulated network admits every client.
void SimulatedClientLink::meet(const std::string& token, int self, const std::vector<Peer>& peers,
                               const std::vector<std::string>&) {
  for (const PeerConnection& each : peers_) {
    if (each.connection) lan_.close(each.connection, connector);
  }
  peers_.clear();
  token_ = token;
  for (const Peer& peer : peers) {
    const std::string host = peer.endpoint.starts_with(':') ? master_.first : "";
    const std::string id = fmt::format("{}/{}{}", token, self, peer.lane == Lane::bulk ? "b" : "");
    peers_.push_back({peer, nullptr});
    try {
      const auto address = machine_and_port("tcp://" + host + peer.endpoint);
      peers_.back().connection = lan_.connect(program_, *this, Channel::peer, address, id);
    } catch (const Error&) {
      // It is one of unreached().
    }
  }
}

std::vector<std::string> SimulatedClientLink::unreached(wire::Deadline deadline) {
  begin_receive();
  while (true) {
    std::vector<std::string> names;
    for (PeerConnection& each : peers_) {
      each.broke = false;
      if (!each.stands) names.push_back(fmt::format("{} at {}", each.peer.name, each.peer.endpoint));
    }
    const bool hopeless = std::ranges::any_of(peers_, [](const auto& each) { return each.connection == nullptr; });
    if (names.empty() || hopeless) return names;
    watch();
    if (!wait(deadline)) return names;
  }
}

void SimulatedClientLink::send_to_peer(int node, Lane lane, const wire::Envelope& envelope) {
  begin_send();
  if (dead()) return;
  const auto found =
      std::ranges::find_if(peers_, [&](const auto& each) { return each.peer.node == node && each.peer.lane == lane; });
  invariant(found != peers_.end(), "send_to_peer takes a node that was passed to meet");
  for (Packet& packet : packets_of(Channel::peer, envelope)) {
    lan_.log().line("{} > node {} {}", actor().name(), node, packet.name);
    if (found->connection) lan_.send(found->connection, connector, std::move(packet));
  }
}

}  // namespace convoy::simulation
