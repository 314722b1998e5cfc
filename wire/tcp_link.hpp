// Links over TCP: ZeroMQ sockets. Those who use links need only the interfaces in link.hpp.
#pragma once

#include "wire/link.hpp"

namespace convoy::wire {

/// One ROUTER socket for all slaves.
class TcpServerLink final : public ServerLink {
 public:
  /// As Network::listen().
  explicit TcpServerLink(const std::string& endpoint, const LinkOptions& options = {});
  ~TcpServerLink() override;
  std::string endpoint() const override;
  std::optional<From> receive(Deadline deadline) override;
  void send(const std::string& peer, Channel channel, const Envelope& envelope, Deadline deadline) override;
  std::vector<Refusal> take_refusals() override;
  /// Lets a receive() that waits, or else the next that would wait, return nothing at once. Any thread may call this.
  void wake();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Two DEALER sockets to the master, one to each slave that this slave sends to in each lane, and a ROUTER socket for
/// slaves that send to it.
class TcpClientLink final : public ClientLink {
 public:
  /// As Network::connect().
  explicit TcpClientLink(const std::string& endpoint, const LinkOptions& options = {}, int peer_port = 0);
  ~TcpClientLink() override;
  int peer_port() const override;
  std::string peer_key() const override;
  std::optional<From> receive(Deadline deadline) override;
  void send(Channel channel, const Envelope& envelope, Deadline deadline) override;
  bool connected() override;
  bool turned_away() override;
  std::string trouble() override;
  void meet(const std::string& token, int self, const std::vector<Peer>& peers,
            const std::vector<std::string>& clients = {}) override;
  void share_cards(int slaves) override;
  std::vector<std::string> unreached(Deadline deadline) override;
  void send_to_peer(int node, Lane lane, const Envelope& envelope) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace convoy::wire
