// Attempts to shake hands with several addresses at once, to find the one where a master with a known key listens. The
// header includes zmq.hpp, so only the sources of wire/ may include it.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "wire/keys.hpp"
#include "wire/monitor.hpp"

namespace convoy::wire {

class Handshakes {
 public:
  explicit Handshakes(JoinKey key) : key_(std::move(key)) {}

  /// Begins to connect to "tcp://HOST:PORT".
  void begin(const std::string& endpoint);
  std::size_t running() const { return attempts_.size(); }

  struct Result {
    std::string endpoint;
    bool succeeded = false;    ///< whether the machine there has proved that it has the master's secret key
    std::string refused = {};  ///< text for the user if the machine there does not admit the key; else empty
  };
  /// Returns the attempts that ended since the last call. An attempt that takes longer than 5 s fails.
  std::vector<Result> take();
  /// Waits half a second at most for the attempts that have a TCP connection, because a master warns its user about a
  /// connection that is closed in the middle of the handshake.
  void settle();

 private:
  struct Attempt {
    std::string endpoint;
    std::chrono::steady_clock::time_point until;
    zmq::socket_t socket;
    std::unique_ptr<Monitor> monitor;  ///< goes before the socket
  };

  JoinKey key_;
  zmq::context_t context_{1};
  std::list<Attempt> attempts_;
  int begun_ = 0;
};

}  // namespace convoy::wire
