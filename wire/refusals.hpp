// Records the connections that fail ZeroMQ's handshake. The header includes zmq.hpp, so only the sources of wire/ may
// include it.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "wire/link.hpp"

namespace convoy::wire {

/// Follows the handshakes at a listening socket, in a thread of its own. It must be destroyed before the socket.
class Refusals {
 public:
  /// `encrypted` says whether the socket asks for keys.
  Refusals(zmq::context_t& context, zmq::socket_t& watched, bool encrypted);
  ~Refusals();
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  /// Returns the refusals since the last call; at most the first 64 of them are kept.
  std::vector<Refusal> take();

 private:
  void follow();
  void take_event(std::uint16_t event, std::uint32_t value);

  zmq::socket_t& watched_;
  const bool encrypted_;
  zmq::socket_t events_;
  std::map<std::uint32_t, std::string> addresses_;  ///< IP addresses of the connections, by file descriptor
  std::string why_;  ///< why the handshake failed whose connection closes next; empty if none failed
  std::mutex mutex_;
  std::vector<Refusal> refusals_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  ///< asks for an address at once, because the system forgets it when the connection closes
};

}  // namespace convoy::wire
