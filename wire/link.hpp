// Links with a deadline on every wait, as interfaces. tcp_link.hpp implements them with ZeroMQ; the rest of the program
// sees no other header of the transport, and a simulation gives it links of its own.
//
// Each slave makes two connections to the master's one port. "control" carries Hello, Ping and Bye, and has ZMTP
// heartbeats, so that either side notices a peer that vanished or was suspended. "data" carries tasks and tensors, and
// has no heartbeats, because a heartbeat queued behind a large frame would break the link. Each slave also listens for
// other slaves, and connects to the slaves that it sends to. A link may be used by one thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "wire/keys.hpp"
#include "wire/message.hpp"

namespace convoy::wire {

using Clock = convoy::Clock;
using Deadline = Clock::time_point;

/// The bytes of one frame, with a reference count: copies share the memory, and sending copies no bytes. The bytes must
/// not be changed once they were sent.
class Payload {
 public:
  Payload();
  explicit Payload(std::size_t bytes);  ///< allocates `bytes` uninitialised bytes
  /// Refers to bytes that `owner` keeps alive. The last copy of the payload releases `owner`, possibly in another
  /// thread.
  Payload(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);
  Payload(const Payload&);
  Payload& operator=(const Payload&);
  Payload(Payload&&) noexcept;
  Payload& operator=(Payload&&) noexcept;
  ~Payload();

  std::size_t size() const;
  bool empty() const { return size() == 0; }
  std::span<std::byte> bytes();
  std::span<const std::byte> bytes() const;
  /// The bytes as floats. Throws Error if the size is not a multiple of 4.
  std::span<float> floats();
  std::span<const float> floats() const;

 private:
  friend struct PayloadAccess;
  struct State;
  std::unique_ptr<State> state_;
};

struct Envelope {
  Message message;
  Payload payload;  ///< not empty for a Piece, empty for every other message
};

/// control and data connect a slave with the master; peer connects it with another slave.
enum class Channel : std::uint8_t { control, data, peer };

struct LinkOptions {
  std::chrono::milliseconds heartbeat_interval{250};
  std::chrono::milliseconds heartbeat_timeout{2000};
  std::size_t max_message_bytes = 2 * kPieceBytes;
  // A link without keys is neither encrypted nor authenticated.
  std::optional<MasterKeys> keys = {};   ///< keys of a ServerLink
  std::optional<JoinKey> join_key = {};  ///< keys of a ClientLink
  Admission admission = {};              ///< clients of a ServerLink with keys; empty admits the shared key alone
};

/// A connection that was turned away during the handshake.
struct Refusal {
  std::string address;  ///< IP address of the client
  std::string why;      ///< reason, as a clause for people
};

/// The master's end, for many peers. Each peer is known by the id that its connection chose.
class ServerLink {
 public:
  virtual ~ServerLink() = default;
  /// The endpoint, with the actual port.
  virtual std::string endpoint() const = 0;

  struct From {
    std::string peer;  ///< slave id, the same for both channels
    Channel channel = Channel::data;
    Envelope envelope;
    std::string rejected;  ///< if not empty, why the bytes are not a valid message; `envelope` is then empty
    std::string address;   ///< IP address of the peer, on the control channel only
    std::string key;       ///< public key by which the peer was admitted, in Z85; empty without keys
  };
  /// Returns the next message, or nothing if none arrives before the deadline. Drops the messages of peers that are not
  /// admitted any more.
  virtual std::optional<From> receive(Deadline deadline) = 0;
  /// Queues a message. Throws PeerLost if the peer is not connected or its queue stays full until the deadline.
  virtual void send(const std::string& peer, Channel channel, const Envelope& envelope, Deadline deadline) = 0;
  /// Returns the connections that failed the handshake since the last call.
  virtual std::vector<Refusal> take_refusals() = 0;
};

/// The link to another slave broke.
class LinkBroken : public Error {
 public:
  explicit LinkBroken(std::string peer)
      : Error(fmt::format("the link to slave {} broke", peer)), peer_(std::move(peer)) {}
  const std::string& peer() const { return peer_; }

 private:
  std::string peer_;
};

/// A slave's end: both connections to the master, and the connections from and to other slaves. It connects to the
/// master in the background, with retries.
class ClientLink {
 public:
  virtual ~ClientLink() = default;
  /// The port at which it listens for other slaves.
  virtual int peer_port() const = 0;
  /// The public key by which other slaves authenticate this slave, in Z85; empty without keys.
  virtual std::string peer_key() const = 0;

  struct From {
    Channel channel = Channel::data;
    Envelope envelope;
    int node = -1;         ///< node of the sender, on the peer channel only
    std::string rejected;  ///< if not empty, why a peer's bytes are not a valid message
  };
  /// Returns the next message of any channel, or nothing if none arrives before the deadline. Throws PeerLost("master")
  /// if the connection to the master broke after it was established, or if the master sent an invalid message. Throws
  /// LinkBroken if the connection to another slave broke.
  virtual std::optional<From> receive(Deadline deadline) = 0;
  /// Queues a message for the master. Throws PeerLost("master") if the connection broke or the queue stays full until
  /// the deadline.
  virtual void send(Channel channel, const Envelope& envelope, Deadline deadline) = 0;
  /// Whether the control connection to the master is established.
  virtual bool connected() = 0;
  /// Whether the last handshake with the server at the endpoint failed: its keys differ, or only one side uses keys.
  virtual bool turned_away() = 0;
  /// Why the connection is not established yet, as a text for people: for example, the name does not resolve, nobody
  /// listens at the port, or the keys differ. Empty if the connection is established or the reason is not known yet.
  virtual std::string trouble() = 0;

  struct Peer {
    int node = 0;
    std::string name;      ///< name of the slave, for error texts
    std::string endpoint;  ///< "HOST:PORT", or ":PORT" for a slave on the master's host
    std::string key = {};  ///< peer_key() of the slave
    Lane lane = Lane::prompt;
  };
  /// Drops all links to peers, and makes a connection for each of `peers`, as node `self` of the plan with this token.
  /// A slave to which this one sends in both lanes is there once for each lane. From now on, messages with other tokens
  /// are ignored, and with keys also messages of clients whose public key is none of `clients`, which cannot connect
  /// either. A peer whose address or key cannot be used is one of unreached().
  virtual void meet(const std::string& token, int self, const std::vector<Peer>& peers,
                    const std::vector<std::string>& clients = {}) = 0;
  /// From now on, `slaves` slaves send to the master and to one another at the same time, this one among them. The
  /// connections that carry tensors share the master's card evenly, and those of other slaves this one's.
  virtual void share_cards(int slaves) = 0;
  /// Waits until all peers are connected. Returns "NAME at HOST:PORT" of each peer that is not connected at the
  /// deadline, and the reason where one is known. Does not wait for peers that cannot be connected.
  virtual std::vector<std::string> unreached(Deadline deadline) = 0;
  /// Queues a message without waiting. Messages of one lane arrive in their order. The queue has no limit, but never
  /// holds more than the plan sends in two steps. Throws LinkBroken if the connection broke.
  virtual void send_to_peer(int node, Lane lane, const Envelope& envelope) = 0;
};

/// Makes the links of one machine.
class Network {
 public:
  virtual ~Network() = default;
  /// Listens at an endpoint such as "tcp://*:5570"; "tcp://127.0.0.1:*" picks a free port. Throws Error naming the
  /// endpoint.
  virtual std::unique_ptr<ServerLink> listen(const std::string& endpoint, const LinkOptions& options) = 0;
  /// Begins to connect to the master at the endpoint, and listens for other slaves at TCP port `peer_port`; 0 picks a
  /// free port. Throws Error if the endpoint cannot be parsed or the port is taken.
  virtual std::unique_ptr<ClientLink> connect(const std::string& endpoint, const LinkOptions& options,
                                              int peer_port) = 0;
};

/// This machine's network (tcp_link.hpp).
Network& tcp_network();

}  // namespace convoy::wire
