// Who is turned away before a word of theirs is read as a message. Includes zmq.hpp: for the sources of wire/ alone.
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

/// Follows the handshakes at a socket that listens. Must go before the socket.
class Refusals {
 public:
  Refusals(zmq::context_t& context, zmq::socket_t& watched);
  ~Refusals();
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  /// Those since the last call; of a flood the first ones.
  std::vector<Refusal> take();

 private:
  void follow();
  void take_event(std::uint16_t event, std::uint32_t value);

  zmq::socket_t& watched_;
  zmq::socket_t events_;
  std::map<std::uint32_t, std::string> addresses_;  ///< of connections, by file descriptor
  std::string why_;                                 ///< the handshake failed that closes next
  std::mutex mutex_;
  std::vector<Refusal> refusals_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  ///< a connection's address is known for as long as it stands: it is asked at once
};

}  // namespace convoy::wire
