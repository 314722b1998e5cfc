// What happens to a socket's one connection. Includes zmq.hpp: for the sources of wire/ alone.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <zmq.hpp>

namespace convoy::wire {

/// Follows whether the connection stands, and if not, how far it gets. Must go before the socket.
class Monitor {
 public:
  Monitor(zmq::context_t& context, zmq::socket_t& watched, const std::string& name);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Takes what happened; false when the connection broke after it stood.
  bool watch();
  bool stands() const { return stands_; }
  /// Why the last handshake failed; empty where none did, or where there is no TCP connection any more to shake hands on.
  const std::string& handshake_fault() const { return handshake_fault_; }
  /// How long there has been a TCP connection without a handshake, now.
  std::optional<std::chrono::steady_clock::duration> silent() const;
  /// Whether a TCP connection has failed since the last call.
  bool take_failed_connection() { return std::exchange(failed_, false); }
  void* handle() { return events_.handle(); }

 private:
  bool take(std::uint16_t event, std::uint32_t value);

  zmq::socket_t& watched_;
  zmq::socket_t events_;
  bool stands_ = false;
  bool connecting_ = true;  ///< no TCP connection since the last attempt began
  bool failed_ = false;
  std::optional<std::chrono::steady_clock::time_point> connected_;  ///< the TCP connection without a handshake
  std::string handshake_fault_;
};

}  // namespace convoy::wire
