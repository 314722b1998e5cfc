// Follows the state of a socket's connection. The header includes zmq.hpp, so only the sources of wire/ may include it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <zmq.hpp>

#include "core/clock.hpp"

namespace convoy::wire {

struct SocketEvent {
  std::uint16_t kind = 0;   ///< ZMQ_EVENT_...
  std::uint32_t value = 0;  ///< the descriptor of the TCP connection, or the fault of a handshake
};
/// Returns the next event of a monitored socket; nothing if there is none.
std::optional<SocketEvent> take_event(zmq::socket_t& events);

/// Follows a socket with one connection: whether it is established and, if not, which attempts fail and why. It must be
/// destroyed before the socket.
class Monitor {
 public:
  Monitor(zmq::context_t& context, zmq::socket_t& watched, const std::string& name);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Handles the events since the last call. Returns false if the connection broke after it was established.
  bool watch();
  /// Whether the connection is established: the handshake has succeeded.
  bool stands() const { return stands_; }
  /// Why the last handshake failed; empty if none failed, or if a later attempt made no TCP connection.
  const std::string& handshake_fault() const { return handshake_fault_; }
  /// Whether the last handshake failed because the server did not admit this client's key.
  bool not_admitted() const { return not_admitted_ && !handshake_fault_.empty(); }
  /// How long the current TCP connection has existed without a completed handshake; nothing if there is no such
  /// connection.
  std::optional<Clock::duration> silent() const;
  /// Whether a TCP connection has failed since the last call.
  bool take_failed_connection() { return std::exchange(failed_, false); }
  /// The descriptor of the TCP connection; nothing if there is none.
  std::optional<int> descriptor() const { return descriptor_; }
  void* handle() { return events_.handle(); }

 private:
  bool take(std::uint16_t event, std::uint32_t value);

  zmq::socket_t& watched_;
  zmq::socket_t events_;
  bool stands_ = false;
  bool connecting_ = true;                      ///< whether the last attempt has not made a TCP connection yet
  bool failed_ = false;                         ///< whether an attempt has failed since take_failed_connection()
  std::optional<Clock::time_point> connected_;  ///< when a TCP connection without a handshake began
  std::optional<int> descriptor_;
  std::string handshake_fault_;
  bool not_admitted_ = false;  ///< whether handshake_fault_ is that of a key that was not admitted
};

}  // namespace convoy::wire
