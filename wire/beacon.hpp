// How slaves find their master without its address: once a second the master broadcasts its port and public key on the
// LAN over UDP. A broadcast proves nothing: the slave still authenticates the machine at the address by the master's
// key.
#pragma once

#include <chrono>
#include <condition_variable>
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
  /// all networks of this machine if HOST is a wildcard. Broadcasts are of IPv4: there are none for an IPv6 HOST.
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

/// Listens for the calls of all masters, at kBeaconPort.
class CallListener {
 public:
  /// Throws Error if the UDP port cannot be bound.
  CallListener();
  ~CallListener();
  CallListener(const CallListener&) = delete;
  CallListener& operator=(const CallListener&) = delete;

  struct Heard {
    Call call;
    std::string master;  ///< "tcp://HOST:PORT", with the sender's IP address
  };
  /// Returns the next call. Returns nothing if none comes within `patience`, or if the next datagram is no call.
  std::optional<Heard> next(std::chrono::milliseconds patience) const;

 private:
  int handle_;
};

}  // namespace convoy::wire
