#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <list>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "core/text.hpp"
#include "wire/endpoint.hpp"
#include "wire/gatekeeper.hpp"
#include "wire/monitor.hpp"
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

/// How long a slave waits before it connects again to a slave that did not admit it.
constexpr auto kTryAgain = std::chrono::milliseconds(100);
/// How long a program that accepted the TCP connection may take for the handshake before the user is told.
constexpr auto kHandshakePatience = std::chrono::seconds(6);
/// How long ZeroMQ tries to connect before Trouble looks for the error with a connection of its own. That connection is
/// closed at once, and a master that starts at the same time as its slaves would warn its user about it.
constexpr auto kBeforeAsking = std::chrono::seconds(2);
/// How long an attempt of ZeroMQ may last without an event before Trouble looks for the error.
constexpr auto kSilentAttempt = std::chrono::seconds(4);
/// How long the addresses of a name in one family (IPv4 or IPv6) are tried before those in the other.
constexpr auto kTurn = std::chrono::seconds(2);
/// What follows the node in the id of a connection of the bulk lane.
constexpr std::string_view kBulkSuffix = "b";
/// The bytes of the bulk lane that the system may hold for all peers, and the least for each. TCP would fill the buffers of
/// cards and switches, and what waits there delays the prompt lane. A link of 1 Gbit/s whose round trip takes 1 ms holds as
/// many.
constexpr int kBulkBuffers = 128 * 1024;
constexpr int kLeastBulkBuffer = 16 * 1024;
/// How often a caller that does not wait learns of broken connections: a look is a system call for each connection.
constexpr auto kBetweenLooks = std::chrono::milliseconds(1);
/// The type of service of the bulk lane: throughput rather than delay. The queues of this machine's card send such packets
/// last.
constexpr int kBulkService = 0x08;
/// How long one attempt to connect to a name may last.
constexpr auto kAttemptAtAName = std::chrono::milliseconds(5000);

}  // namespace

struct TcpClientLink::State {
  explicit State(Address of_master) : address(std::move(of_master)), ipv6(is_ipv6(address.host)) {}

  /// The outgoing connection to another slave.
  struct PeerSocket {
    Peer peer;
    std::string address;
    zmq::socket_t socket;
    std::unique_ptr<Monitor> monitor;  ///< null for a peer that cannot be connected
    std::string fault;                 ///< why it cannot be
    Deadline since = Clock::now();     ///< when the attempt to connect began
  };

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
  std::string token;  ///< token of the current plan
  int self = 0;       ///< node of this slave in the current plan
  std::list<PeerSocket> peers;
  int bulk_peers = 0;  ///< peers to which this slave sends in the bulk lane
  int meetings = 0;
  Deadline looked{};  ///< at the connections

  /// Connects to an IP address in its family, and to a name in the family that the link to the master has.
  void connect(zmq::socket_t& socket, const Address& to, const std::string& own_id) const {
    const bool name = !is_ipv4(to.host) && !is_ipv6(to.host);
    socket.set(zmq::sockopt::routing_id, own_id);
    socket.set(zmq::sockopt::reconnect_ivl, 100);
    socket.set(zmq::sockopt::reconnect_ivl_max, 2000);
    if (name) socket.set(zmq::sockopt::connect_timeout, static_cast<int>(kAttemptAtAName.count()));
    socket.set(zmq::sockopt::ipv6, name ? ipv6 : is_ipv6(to.host));
    socket.connect("tcp://" + to_text(to));
  }
  void connect_to_master() {
    connect(control, address, id + "/c");
    connect(data, address, id + "/d");
  }

  /// Throws PeerLost if the connection to the master broke after it was established.
  void watch() {
    if (!master->watch()) throw PeerLost("master", "the connection to the master broke");
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
  bool looks(bool waits) {
    const auto now = Clock::now();
    if (!waits && now - looked < kBetweenLooks) return false;
    looked = now;
    return true;
  }
  void watch_peers() {
    for (PeerSocket& each : peers) {
      if (each.monitor && !each.monitor->watch()) throw LinkBroken(each.peer.name);
    }
  }

  /// Connects to another slave, or notes why that cannot be.
  void meet(PeerSocket& link) {
    link.since = Clock::now();
    configure(link.socket, options);
    // The queue is unlimited: a send that blocked on a hung peer would keep this slave from reading the master's new
    // plan.
    link.socket.set(zmq::sockopt::sndhwm, 0);
    if (link.peer.lane == Lane::bulk) {
      link.socket.set(zmq::sockopt::sndbuf, std::max(kLeastBulkBuffer, kBulkBuffers / bulk_peers));
      link.socket.set(zmq::sockopt::tos, kBulkService);
    }
    link.socket.set(zmq::sockopt::tcp_keepalive, 1);
    auto monitor = std::make_unique<Monitor>(context, link.socket, fmt::format("{}-{}", ++meetings, link.peer.node));
    try {
      const Address to = address_of_peer(link.peer.endpoint, address.host);
      link.address = to_text(to);
      if (const auto& key = options.join_key) {
        if (!is_key(link.peer.key)) fail("it announced no public key");
        encrypt_as_client(link.socket, link.peer.key, key->member);
      }
      connect(link.socket, to, fmt::format("{}/{}{}", token, self, link.peer.lane == Lane::bulk ? kBulkSuffix : ""));
      link.monitor = std::move(monitor);
    } catch (const zmq::error_t& error) {
      link.fault = std::strerror(error.num());
    } catch (const Error& error) {
      link.fault = error.what();
    }
  }

  /// Connects anew to a slave that did not admit this one, since ZeroMQ gives up such a connection. The other slave may
  /// just not know the plan yet.
  void try_again(PeerSocket& link) {
    if (!link.monitor || link.monitor->handshake_fault().empty() || Clock::now() - link.since < kTryAgain) return;
    link.monitor.reset();
    link.socket = zmq::socket_t(context, zmq::socket_type::dealer);
    meet(link);
  }

  /// The next message from a peer with the current token; messages with other tokens are dropped.
  std::optional<From> receive_from_peer() {
    while (true) {
      zmq::message_t id;
      if (!from_peers.recv(id, zmq::recv_flags::dontwait)) return std::nullopt;
      Frames frames = id.more() ? receive_frames(from_peers) : Frames{};
      const std::string sender = id.to_string();
      const std::string of_this_run = token + "/";
      if (token.empty() || !sender.starts_with(of_this_run)) continue;
      if (gatekeeper && gatekeeper->sender(frames.header).empty()) continue;
      From from{.channel = Channel::peer, .envelope = {}, .node = -1, .rejected = {}};
      const char* const end = sender.data() + sender.size();
      const char* const rest = std::from_chars(sender.data() + of_this_run.size(), end, from.node).ptr;
      if (rest != end && std::string_view(rest, end) != kBulkSuffix) continue;
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
  state.master.emplace(state.context, state.control, "master");
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
    const bool looks = state.looks(waits);
    if (looks) state.watch();
    if (auto from = state.receive_from_peer()) return from;
    if (looks) state.watch_peers();
    if (!waits) return std::nullopt;
    std::array<zmq::pollitem_t, 4> items{{{state.control.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.data.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.from_peers.handle(), 0, ZMQ_POLLIN, 0},
                                          {state.master->handle(), 0, ZMQ_POLLIN, 0}}};
    try {
      if (zmq::poll(items.data(), items.size(), remaining(deadline)) == 0) return std::nullopt;
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) return std::nullopt;  // lets the caller check its stop flag
      throw;
    }
  }
}

void TcpClientLink::send(Channel channel, const Envelope& envelope, Deadline deadline) {
  zmq::socket_t& socket = channel == Channel::control ? state_->control : state_->data;
  while (true) {
    if (state_->looks(false)) state_->watch();
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
  State& state = *state_;
  state.clients.set(clients);
  for (State::PeerSocket& each : state.peers) each.monitor.reset();
  state.peers.clear();
  state.token = token;
  state.self = self;
  state.bulk_peers = static_cast<int>(std::ranges::count(peers, Lane::bulk, &Peer::lane));
  for (const Peer& peer : peers) {
    state.peers.push_back({.peer = peer,
                           .address = printable(peer.endpoint),
                           .socket = zmq::socket_t(state.context, zmq::socket_type::dealer),
                           .monitor = nullptr,
                           .fault = {}});
    state.meet(state.peers.back());
  }
}

std::vector<std::string> TcpClientLink::unreached(Deadline deadline) {
  while (true) {
    std::vector<std::string> names;
    bool hope = false;
    for (State::PeerSocket& each : state_->peers) {
      if (each.monitor) each.monitor->watch();
      if (each.monitor && each.monitor->stands()) continue;
      state_->try_again(each);
      hope = hope || each.monitor;
      std::string name =
          fmt::format("{} at {}{}", each.peer.name, each.address, each.fault.empty() ? "" : ": " + each.fault);
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    if (names.empty() || !hope || Clock::now() >= deadline) return names;
    state_->watch();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void TcpClientLink::send_to_peer(int node, Lane lane, const Envelope& envelope) {
  const auto found = std::ranges::find_if(
      state_->peers, [&](const auto& each) { return each.peer.node == node && each.peer.lane == lane; });
  invariant(found != state_->peers.end(), "send_to_peer takes a node and a lane that were passed to meet");
  while (true) {
    try {
      invariant(send_frames(found->socket, envelope), "the queue of a peer socket has no limit");
      return;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw LinkBroken(found->peer.name);
    }
  }
}

}  // namespace convoy::wire
