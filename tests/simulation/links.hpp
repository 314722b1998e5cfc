// Links over the simulated LAN, as wire/link.hpp promises them.
#pragma once

#include <list>
#include <optional>

#include "tests/simulation/lan.hpp"

namespace convoy::simulation {

/// What a hostile program makes of the messages that it sends.
class Distortion {
 public:
  virtual ~Distortion() = default;
  /// The messages that go out instead of this one.
  virtual std::vector<Packet> distort(wire::Channel channel, const wire::Envelope& envelope) = 0;
};

/// The links of one program.
class SimulatedNetwork final : public wire::Network {
 public:
  SimulatedNetwork(Lan& lan, Program& program, Distortion* distortion = nullptr)
      : lan_(lan), program_(program), distortion_(distortion) {}
  std::unique_ptr<wire::ServerLink> listen(const std::string& endpoint, const wire::LinkOptions& options) override;
  std::unique_ptr<wire::ClientLink> connect(const std::string& endpoint, const wire::LinkOptions& options,
                                            int peer_port) override;

 private:
  Lan& lan_;
  Program& program_;
  Distortion* distortion_;
};

/// What all links of a program share.
class SimulatedLink {
 protected:
  SimulatedLink(Lan& lan, Program& program) : lan_(lan), program_(program) {}

  /// Takes the time of a call, and counts a send.
  void begin_send();
  bool dead() const { return !program_.alive; }
  Actor& actor() { return *program_.actor; }
  /// Lets everything happen that is due, then waits for news until the deadline. False at the deadline.
  bool wait(wire::Deadline deadline);
  void begin_receive();

  Lan& lan_;
  Program& program_;
};

class SimulatedServerLink final : public wire::ServerLink, private SimulatedLink, private End {
 public:
  SimulatedServerLink(Lan& lan, Program& program, std::string endpoint, int port);
  ~SimulatedServerLink() override;
  std::string endpoint() const override { return endpoint_; }
  std::optional<From> receive(wire::Deadline deadline) override;
  void send(const std::string& peer, wire::Channel channel, const wire::Envelope& envelope,
            wire::Deadline deadline) override;
  std::vector<wire::Refusal> take_refusals() override { return {}; }

 private:
  using Key = std::pair<std::string, wire::Channel>;
  void take(Connection& from, Packet&& packet) override;
  void stands(Connection& connection) override;
  void broke(Connection& connection) override;
  std::size_t unread(const Connection& from) const override;

  std::string endpoint_;
  int port_;
  std::map<Key, ConnectionPtr> connections_;
  struct Inbox {
    std::deque<Packet> packets;
    std::string address;
  };
  std::map<Key, Inbox> inboxes_;  ///< that have messages
};

class SimulatedClientLink final : public wire::ClientLink, private SimulatedLink, private End {
 public:
  SimulatedClientLink(Lan& lan, Program& program, const std::pair<std::string, int>& master, int peer_port,
                      Distortion* distortion);
  ~SimulatedClientLink() override;
  int peer_port() const override { return port_; }
  std::string peer_key() const override { return ""; }
  std::optional<From> receive(wire::Deadline deadline) override;
  void send(wire::Channel channel, const wire::Envelope& envelope, wire::Deadline deadline) override;
  bool connected() override;
  bool turned_away() override { return false; }
  std::string trouble() override { return ""; }
  void meet(const std::string& token, int self, const std::vector<Peer>& peers,
            const std::vector<std::string>& clients) override;
  void share_cards(int /*slaves*/) override {}
  std::vector<std::string> unreached(wire::Deadline deadline) override;
  void send_to_peer(int node, Lane lane, const wire::Envelope& envelope) override;

 private:
  struct PeerConnection {
    Peer peer;
    ConnectionPtr connection;
    bool stands = false;
    bool broke = false;
  };
  void take(Connection& from, Packet&& packet) override;
  void stands(Connection& connection) override;
  void broke(Connection& connection) override;
  std::size_t unread(const Connection& from) const override;
  void watch();
  std::optional<From> receive_from_master();
  std::optional<From> receive_from_peer();
  void await_room(const Connection& connection, wire::Deadline deadline);
  std::vector<Packet> packets_of(wire::Channel channel, const wire::Envelope& envelope);

  std::pair<std::string, int> master_;
  Distortion* distortion_;
  int port_;
  ConnectionPtr control_;
  ConnectionPtr data_;
  bool master_broke_ = false;
  std::deque<Packet> control_inbox_;
  std::deque<Packet> data_inbox_;
  std::string token_;
  std::list<PeerConnection> peers_;
  struct PeerInbox {
    std::string id;  ///< of the connection
    std::deque<Packet> packets;
  };
  /// That have messages, by the number of the connection: its id contains random bits, which must not matter.
  std::map<std::uint64_t, PeerInbox> peer_inboxes_;
};

}  // namespace convoy::simulation
