#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "core/text.hpp"
#include "wire/buffers.hpp"
#include "wire/endpoint.hpp"
#include "wire/gatekeeper.hpp"
#include "wire/monitor.hpp"
#include "wire/peer_sockets.hpp"
#include "wire/receive_windows.hpp"
#include "wire/socket.hpp"
#include "wire/tcp_link.hpp"
#include "wire/trouble.hpp"

namespace convoy::wire {
namespace {

/// Makes the id of one pair of connections. No two links share an id, so a master never takes a new session for an old
/// one.
std::string make_id() {
  std::random_device entropy;
  return fmt::format("{}-{:08x}{:08x}", getpid(), entropy(), entropy());
}

/// The clients that may send to this slave as its peers. The gatekeeper asks in a thread of its own.
class Clients {
 public:
  void set(const std::vector<std::string>& keys) {
    const std::scoped_lock lock(mutex_);
    keys_ = {keys.begin(), keys.end()};
  }
  std::string objection(const std::string& key) const {
    const std::scoped_lock lock(mutex_);
    return keys_.contains(key) ? "" : "its key is none of this plan's slaves";
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> keys_;
};

/// How long a program that accepted the TCP connection may take for the handshake before the user is told.
constexpr auto kHandshakePatience = std::chrono::seconds(6);
/// How long ZeroMQ tries to connect before Trouble looks for the error with a connection of its own. That connection is
/// closed at once, and a master that starts at the same time as its slaves would warn its user about it.
constexpr auto kBeforeAsking = std::chrono::seconds(2);
/// How long an attempt of ZeroMQ may last without an event before Trouble looks for the error.
constexpr auto kSilentAttempt = std::chrono::seconds(4);
/// How long the addresses of a name in one family (IPv4 or IPv6) are tried before those in the other.
constexpr auto kTurn = std::chrono::seconds(2);
/// How often the link looks for broken connections. A look costs two system calls for each connection, and a slave asks
/// for messages before each of its tasks.
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

}  // namespace

struct TcpClientLink::State {
  explicit State(Address of_master) : address(std::move(of_master)), ipv6(is_ipv6(address.host)) {}

  LinkOptions options;
  Address address;      ///< address of the master
  bool ipv6;            ///< whether the link connects over IPv6; for a name, both families take turns
  bool failed = false;  ///< whether a TCP connection has failed since trouble() looked
  std::string id = make_id();
  Deadline turned;  ///< when the family changed last
  Trouble trouble{address};
  Deadline began = Clock::now();  ///< when the link began to connect
  Deadline since = began;         ///< when the attempt to connect began
  KeyPair own_keys;               ///< keys towards other slaves; empty without a join key
  zmq::context_t context{1};
  Clients clients;
  std::optional<Gatekeeper> gatekeeper;
  zmq::socket_t control{context, zmq::socket_type::dealer};
  zmq::socket_t data{context, zmq::socket_type::dealer};
  zmq::socket_t from_peers{context, zmq::socket_type::router};
  std::optional<Monitor> master;
  std::optional<Monitor> data_connection;
  int sharers = 1;  ///< slaves that send at the same time
  std::optional<PeerSockets> peers;
  std::optional<ReceiveWindows> windows;  ///< of connections from other slaves
  Deadline looked{};                      ///< at the connections

  void connect_to_master() {
    connect(control, address, id + "/c", ipv6);
    connect(data, address, id + "/d", ipv6);
  }

  /// Throws PeerLost if the connection to the master broke after it was established.
  void watch() {
    if (!master->watch()) throw PeerLost("master", "the connection to the master broke");
    data_connection->watch();
    if (master->stands() || !master->take_failed_connection()) return;
    failed = true;
    const bool number = is_ipv4(address.host) || is_ipv6(address.host);
    if (!number && Clock::now() - turned > kTurn) turn();
  }
  /// Tries the addresses of the name in the other family. ZeroMQ takes only one address of a name, in the family that
  /// it is told.
  void turn() {
    turned = Clock::now();
    ipv6 = !ipv6;
    for (zmq::socket_t* socket : {&control, &data}) socket->disconnect("tcp://" + to_text(address));
    connect_to_master();
  }
  /// Returns whether it is time to look at the connections.
  bool looks() {
    const auto now = Clock::now();
    if (now - looked < kBetweenLooks) return false;
    looked = now;
    return true;
  }
  /// The next message from a peer with the current token; messages with other tokens are dropped.
  std::optional<From> receive_from_peer() {
    while (true) {
      zmq::message_t id;
      if (!from_peers.recv(id, zmq::recv_flags::dontwait)) return std::nullopt;
      Frames frames = id.more() ? receive_frames(from_peers) : Frames{};
      const std::string sender = id.to_string();
      const std::optional<int> node = peers->node_of(sender);
      if (!node || (gatekeeper && gatekeeper->sender(frames.header).empty())) continue;
      From from{.channel = Channel::peer, .envelope = {}, .node = *node, .rejected = {}};
      try {
        from.envelope = decode_frames(std::move(frames));
      } catch (const Error& error) {
        from.rejected = error.what();
      }
      return from;
    }
  }

  std::optional<From> receive_from_master() {
    for (const Channel channel : {Channel::control, Channel::data}) {
      Frames frames = receive_frames(channel == Channel::control ? control : data);
      if (frames.count == 0) continue;
      try {
        return From{.channel = channel, .envelope = decode_frames(std::move(frames)), .node = -1, .rejected = {}};
      } catch (const Error& error) {
        throw PeerLost("master", fmt::format("the master broke the protocol: {}", error.what()));
      }
    }
    return std::nullopt;
  }
};

TcpClientLink::TcpClientLink(const std::string& endpoint, const LinkOptions& options, int peer_port)
    : state_(std::make_unique<State>(address_of_master(endpoint))) {
  State& state = *state_;
  state.options = options;
  for (zmq::socket_t* socket : {&state.control, &state.data, &state.from_peers}) configure(*socket, options);
  configure_control(state.control, options);
  state.data.set(zmq::sockopt::tcp_keepalive, 1);
  if (const auto& key = options.join_key) {
    state.own_keys = make_key_pair();
    for (zmq::socket_t* socket : {&state.control, &state.data}) {
      encrypt_as_client(*socket, key->master, key->member);
    }
    state.gatekeeper.emplace(state.context,
                             [&state](const std::string& client) { return state.clients.objection(client); });
    encrypt_as_server(state.from_peers, state.own_keys.secret_key);
  }
  state.windows.emplace(state.context, state.from_peers, "from-peers");
  state.peers.emplace(state.context, state.options, state.address.host, state.own_keys);
  state.master.emplace(state.context, state.control, "master");
  state.data_connection.emplace(state.context, state.data, "data");
  try {
    state.connect_to_master();
  } catch (const zmq::error_t& error) {
    fail("cannot connect to '{}': {}; give an address such as tcp://192.168.0.10:5570", endpoint,
         std::strerror(error.num()));
  }
  state.from_peers.set(zmq::sockopt::router_handover, true);
  try {
    listen(state.from_peers, {"*", peer_port});
  } catch (const zmq::error_t& error) {
    fail("cannot listen for other slaves at TCP port {}: {}; choose another --peer-port", peer_port,
         std::strerror(error.num()));
  }
}

TcpClientLink::~TcpClientLink() = default;

int TcpClientLink::peer_port() const {
  const std::string endpoint = state_->from_peers.get(zmq::sockopt::last_endpoint);
  return std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
}

std::string TcpClientLink::peer_key() const { return state_->own_keys.public_key; }

std::optional<TcpClientLink::From> TcpClientLink::receive(Deadline deadline) {
  State& state = *state_;
  while (true) {
    const bool waits = Clock::now() < deadline;
    // Messages that arrived before a connection broke are delivered before the break is reported.
    if (auto from = state.receive_from_master()) return from;
    const bool looks = state.looks();
    if (looks) state.watch();
    if (auto from = state.receive_from_peer()) return from;
    if (looks) {
      state.peers->watch();
      state.windows->watch();
    }
    if (!waits) return std::nullopt;
    std::array<zmq::pollitem_t, 4> items{{{state.control.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.data.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.from_peers.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.master->handle(), 0, ZMQ_POLLIN, 0}}};
    try {
      if (zmq::poll(items.data(), items.size(), remaining(deadline)) == 0) return std::nullopt;
      if (items.back().revents != 0) state.looked = {};
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) return std::nullopt;  // lets the caller check its stop flag
      throw;
    }
  }
}

void TcpClientLink::send(Channel channel, const Envelope& envelope, Deadline deadline) {
  zmq::socket_t& socket = channel == Channel::control ? state_->control : state_->data;
  while (true) {
    if (state_->looks()) state_->watch();
    try {
      if (send_frames(socket, envelope)) return;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR)
        throw PeerLost("master", fmt::format("sending to the master failed: {}", std::strerror(error.num())));
    }
    const auto tick = std::min(deadline, Clock::now() + std::chrono::milliseconds(200));
    if (!poll(socket, ZMQ_POLLOUT, tick) && Clock::now() >= deadline) {
      throw PeerLost("master", "the master stopped reading: the send queue stayed full until the deadline");
    }
  }
}

bool TcpClientLink::connected() {
  state_->watch();
  return state_->master->stands();
}

bool TcpClientLink::turned_away() {
  state_->watch();
  return !state_->master->handshake_fault().empty();
}

std::string TcpClientLink::trouble() {
  State& state = *state_;
  state.watch();
  if (state.master->stands()) return "";
  if (!state.master->handshake_fault().empty()) return state.master->handshake_fault();
  if (const auto silent = state.master->silent()) {
    if (*silent < kHandshakePatience) return "";
    return fmt::format(
        "the program at {} port {} accepts connections, but does not answer like a master; check host and port",
        state.address.host, state.address.port);
  }
  // If ZeroMQ's attempt has just failed, no master listens there, so another attempt cannot disturb one.
  const bool failed = std::exchange(state.failed, false);
  if (failed) state.since = Clock::now();
  const bool soon = Clock::now() - state.began < kBeforeAsking;
  if (!soon && (failed || Clock::now() - state.since > kSilentAttempt)) state.trouble.ask();
  return state.trouble.answer();
}

// ---- other slaves --------------------------------------------------------------------------------------------------

void TcpClientLink::meet(const std::string& token, int self, const std::vector<Peer>& peers,
                         const std::vector<std::string>& clients) {
  state_->clients.set(clients);
  state_->peers->meet(token, self, peers, state_->ipv6);
}

std::vector<std::string> TcpClientLink::unreached(Deadline deadline) {
  while (true) {
    const auto [names, hope] = state_->peers->unreached();
    if (names.empty() || !hope || Clock::now() >= deadline) return names;
    state_->watch();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void TcpClientLink::send_to_peer(int node, Lane lane, const Envelope& envelope) {
  state_->peers->send(node, lane, envelope);
}

void TcpClientLink::share_cards(int slaves) {
  state_->windows->share(slaves - 1);
  state_->watch();
  const bool limited = std::exchange(state_->sharers, slaves) > 1;
  const auto descriptor = state_->data_connection->descriptor();
  if (!descriptor) return;  // a connection to come gets a plan, which shares the cards again
  if (slaves > 1) {
    set_send_buffer(*descriptor, share_of_card(slaves, segment_of(*descriptor)));
  } else if (limited) {
    set_send_buffer(*descriptor, kLargestBuffer);
  }
}

}  // namespace convoy::wire
