// How slaves find their master without its address: once a second the master broadcasts its port and public key on the
// LAN over UDP. A broadcast proves nothing: the slave still authenticates the machine at the address by the master's
// key.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace convoy::wire {

constexpr int kBeaconPort = 5569;  ///< UDP

/// The contents of one broadcast datagram.
struct Call {
  int port = 0;     ///< TCP port at which the sender listens
  std::string key;  ///< public key of the sender, in Z85
};
/// The datagram's bytes: "convoy 1 PORT KEY".
std::string to_text(const Call& call);
/// Parses a datagram. Returns nothing if the bytes are not a call.
std::optional<Call> call_from(std::string_view bytes);

/// Broadcasts a call once a second, in a thread of its own, until it is destroyed.
class Beacon {
 public:
  /// `endpoint` ("tcp://HOST:PORT") is where the master listens. The beacon broadcasts on the network of HOST, or on
  /// all networks of this machine if HOST is 0.0.0.0.
  Beacon(const std::string& endpoint, const std::string& public_key);
  ~Beacon();
  Beacon(const Beacon&) = delete;
  Beacon& operator=(const Beacon&) = delete;

 private:
  void call() const;

  std::string host_;
  std::string text_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

/// Waits for a broadcast of the master with this public key and returns the master's endpoint, "tcp://HOST:PORT".
/// Returns nothing once `stop` is set. If no such broadcast came for `patience`, it tells `report` why, once for each
/// reason: there is no broadcast at all, or only that of a master with another key. Throws Error if the UDP port cannot
/// be bound.
std::optional<std::string> find_master(const std::string& public_key, const std::atomic<bool>& stop,
                                       const std::function<void(const std::string&)>& report = {},
                                       std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace convoy::wire
