// Decides who may connect, by answering ZeroMQ's authentication protocol (ZAP, rfc.zeromq.org/spec/27). The header
// includes zmq.hpp, so only the sources of wire/ may include it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "wire/keys.hpp"
#include "wire/link.hpp"

namespace convoy::wire {

/// Asks an Admission about the clients of all CURVE server sockets of a context. A Gatekeeper must be destroyed before
/// the context, and after the sockets.
class Gatekeeper {
 public:
  Gatekeeper(zmq::context_t& context, Admission admission);
  ~Gatekeeper();
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;

  /// The public key of the client that sent a message, if it may send messages now; else an empty text. A client may
  /// have connected before its key was revoked. The frame must be the message's header.
  std::string sender(const zmq::message_t& header) const;
  /// Returns the clients that were not admitted since the last call; at most the first 64 of them are kept.
  std::vector<Refusal> take_refusals();

 private:
  void answer();
  /// The reason why a client is not admitted, or an empty text. A client that is not admitted is recorded.
  std::string decide(const std::vector<zmq::message_t>& request, std::string& public_key);

  zmq::socket_t requests_;
  Admission admission_;
  std::mutex mutex_;
  std::vector<Refusal> refusals_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  ///< answers handshakes while the owner of the sockets computes
};

/// Makes a socket a CURVE server with this secret key, in Z85.
void encrypt_as_server(zmq::socket_t& socket, const std::string& secret_key);
/// Makes a socket a CURVE client of the server with the public key `server`, in Z85.
void encrypt_as_client(zmq::socket_t& socket, const std::string& server, const KeyPair& own);

}  // namespace convoy::wire
