// Decides who may connect, by answering ZeroMQ's authentication protocol (ZAP, rfc.zeromq.org/spec/27). The header
// includes zmq.hpp, so only the sources of wire/ may include it.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "wire/keys.hpp"

namespace convoy::wire {

/// Admits clients with one public key to all CURVE server sockets of a context. A Gatekeeper must be destroyed before
/// the context, and after the sockets.
class Gatekeeper {
 public:
  /// `admitted` is the clients' public key, in Z85.
  Gatekeeper(zmq::context_t& context, const std::string& admitted);
  ~Gatekeeper();
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;

 private:
  void answer();

  zmq::socket_t requests_;
  std::string admitted_;  ///< the 32 bytes of the clients' public key
  std::atomic<bool> stop_{false};
  std::thread thread_;  ///< answers handshakes while the owner of the sockets computes
};

/// Makes a socket a CURVE server with this secret key, in Z85.
void encrypt_as_server(zmq::socket_t& socket, const std::string& secret_key);
/// Makes a socket a CURVE client of the server with the public key `server`, in Z85.
void encrypt_as_client(zmq::socket_t& socket, const std::string& server, const KeyPair& own);

}  // namespace convoy::wire
