// Links: ZeroMQ sockets under deadlines. The only header the rest of the program sees of the transport.
//
// Each slave makes two connections to the master's one port: "control" (hello, ping, bye; with ZMTP heartbeats, so that
// a vanished or suspended peer is noticed by either side) and "data" (tasks and tensors; without, because a heartbeat
// behind a large frame kills a link). Slaves listen for one another, and connect to those that they send to. A link is
// used by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/keys.hpp"
#include "wire/message.hpp"

namespace convoy::wire {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// Reference-counted bytes of one frame: copies share the memory, sending copies nothing. Immutable once sent.
class Payload {
 public:
  Payload();
  explicit Payload(std::size_t bytes);  ///< uninitialised
  /// Shows bytes that `owner` keeps; the last copy of the payload drops it, in whatever thread.
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
  /// The bytes as floats; throws Error if the size is no multiple of 4.
  std::span<float> floats();
  std::span<const float> floats() const;

 private:
  friend struct PayloadAccess;
  struct State;
  std::unique_ptr<State> state_;
};

struct Envelope {
  Message message;
  Payload payload;  ///< empty but for Piece
};

/// To and from the master; from another slave.
enum class Channel : std::uint8_t { control, data, peer };

struct LinkOptions {
  std::chrono::milliseconds heartbeat_interval{250};
  std::chrono::milliseconds heartbeat_timeout{2000};
  std::size_t max_message_bytes = 2 * kPieceBytes;
  /// Without these, links are neither encrypted nor authenticated.
  std::optional<MasterKeys> keys = {};   ///< of a server link
  std::optional<JoinKey> join_key = {};  ///< of a client link
};

/// Somebody who was not let in.
struct Refusal {
  std::string address;  ///< IP address
  std::string why;
};

/// The master's end: one ROUTER socket, many peers, each known by the id that its connection chose.
class ServerLink {
 public:
  /// Binds, for example to "tcp://*:5570" ("tcp://127.0.0.1:*" picks a free port). Throws Error naming the endpoint.
  ServerLink(const std::string& endpoint, const LinkOptions& options = {});
  ~ServerLink();
  /// With the actual port.
  std::string endpoint() const;

  struct From {
    std::string peer;  ///< slave id, the same for both channels
    Channel channel = Channel::data;
    Envelope envelope;
    std::string rejected;  ///< not empty: the bytes were no valid message, and why; envelope is then empty
    std::string address;   ///< IP address of a peer's control connection
  };
  /// The next message, or nothing at the deadline.
  std::optional<From> receive(Deadline deadline);
  /// Throws PeerLost when the peer is not connected or its queue stays full until the deadline.
  void send(const std::string& peer, Channel channel, const Envelope& envelope, Deadline deadline);
  /// Who was turned away since the last call, before a word of theirs was read as a message.
  std::vector<Refusal> take_refusals();

 private:
  struct State;
  std::unique_ptr<State> state_;
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

/// A slave's end: both connections to the master, and those from and to other slaves.
class ClientLink {
 public:
  /// Connects in the background, with retries, and listens for other slaves at TCP port `peer_port`, 0 for any that is
  /// free. Throws Error if the endpoint's text is wrong, or the port taken.
  explicit ClientLink(const std::string& endpoint, const LinkOptions& options = {}, int peer_port = 0);
  ~ClientLink();
  /// The port in use.
  int peer_port() const;
  /// By which other slaves know this one; empty without keys.
  std::string peer_key() const;

  struct From {
    Channel channel = Channel::data;
    Envelope envelope;
    int node = -1;         ///< of a peer
    std::string rejected;  ///< not empty: a peer's bytes were no valid message, and why
  };
  /// The next message of any channel, or nothing at the deadline. Throws PeerLost("master") when the master's
  /// connection broke after it stood, or when its bytes were no valid message; LinkBroken.
  std::optional<From> receive(Deadline deadline);
  void send(Channel channel, const Envelope& envelope, Deadline deadline);
  /// Both connections stand.
  bool connected();
  /// The master, or whatever listens there, has broken off before any message: keys that do not fit, or none on one side.
  bool turned_away();

  struct Peer {
    int node = 0;
    std::string name;      ///< for people
    std::string endpoint;  ///< "HOST:PORT"; without a host, on that of the master
    std::string key = {};  ///< its peer_key()
  };
  /// Drops the links to peers that there are, and connects to these as node `self` of the run with that token; what other
  /// runs' peers send is ignored from now on.
  void meet(const std::string& token, int self, const std::vector<Peer>& peers);
  /// Waits until all peers are reached; names and addresses of those that were not at the deadline.
  std::vector<std::string> unreached(Deadline deadline);
  /// Never waits: what a peer does not take yet is kept, at most what the plan has it sent in two steps. Throws LinkBroken.
  void send_to_peer(int node, const Envelope& envelope);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace convoy::wire
