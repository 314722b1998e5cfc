// A slave's connections to the slaves that it sends to. The header includes zmq.hpp, so only the sources of wire/ may
// include it.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "wire/keys.hpp"
#include "wire/link.hpp"
#include "wire/monitor.hpp"

namespace convoy::wire {

class PeerSockets {
 public:
  /// The references must outlive the sockets. `own` are the keys towards other slaves, empty without a join key.
  PeerSockets(zmq::context_t& context, const LinkOptions& options, const std::string& host_of_master,
              const KeyPair& own)
      : context_(context), options_(options), host_of_master_(host_of_master), own_(own) {}

  /// As ClientLink::meet(); names are tried in IPv6 or IPv4.
  void meet(const std::string& token, int self, const std::vector<ClientLink::Peer>& peers, bool names_in_ipv6);
  /// Returns the peers without a connection, each once, with what is wrong where that is known, and whether any of them
  /// may still be reached.
  std::pair<std::vector<std::string>, bool> unreached();
  /// Throws LinkBroken naming a peer whose connection broke after it was established.
  void watch();
  /// Throws LinkBroken.
  void send(int node, Lane lane, const Envelope& envelope);
  /// Returns the node of a peer that connects to this slave with a routing id; nothing if the id is of another plan.
  std::optional<int> node_of(std::string_view id) const;

 private:
  struct PeerSocket {
    ClientLink::Peer peer;
    std::string address;
    zmq::socket_t socket;
    std::unique_ptr<Monitor> monitor;  ///< null for a peer that cannot be connected
    std::string fault;                 ///< why it cannot be
    Deadline since = Clock::now();     ///< when the attempt to connect began
  };

  void meet(PeerSocket& link);
  void try_again(PeerSocket& link);

  zmq::context_t& context_;
  const LinkOptions& options_;
  const std::string& host_of_master_;
  const KeyPair& own_;
  std::string token_;  ///< of the current plan
  int self_ = 0;       ///< node of this slave in the current plan
  bool names_in_ipv6_ = false;
  std::list<PeerSocket> peers_;
  int meetings_ = 0;
};

}  // namespace convoy::wire
