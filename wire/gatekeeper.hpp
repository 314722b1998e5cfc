// Who may connect: answers ZeroMQ's authentication protocol (ZAP, rfc.zeromq.org/spec/27). Includes zmq.hpp: for the
// sources of wire/ alone.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "wire/keys.hpp"

namespace convoy::wire {

/// Lets those in that show the one key, in all sockets of a context that are CURVE servers. Must go before the context,
/// and after those sockets.
class Gatekeeper {
 public:
  /// `admitted`: a public key in Z85.
  Gatekeeper(zmq::context_t& context, const std::string& admitted);
  ~Gatekeeper();
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;

 private:
  void answer();

  zmq::socket_t requests_;
  std::string admitted_;  ///< its bytes
  std::atomic<bool> stop_{false};
  std::thread thread_;  ///< handshakes must not wait for whoever computes
};

/// The server's side of CURVE, with the secret key of a pair.
void encrypt_as_server(zmq::socket_t& socket, const std::string& secret_key);
/// The client's: of a server that is known by its public key.
void encrypt_as_client(zmq::socket_t& socket, const std::string& server, const KeyPair& own);

}  // namespace convoy::wire
