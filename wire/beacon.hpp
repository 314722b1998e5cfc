// How slaves find their master without its address: it calls its port and public key out on the LAN, once a second, as a
// UDP broadcast. That decides nothing: who answers at that address must still prove to be the master of the slave's key.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace convoy::wire {

constexpr int kBeaconPort = 5569;  ///< UDP

/// What a datagram says.
struct Call {
  int port = 0;     ///< TCP port at which the sender listens
  std::string key;  ///< its public key
};
std::string to_text(const Call& call);
/// Nothing where the bytes are no call.
std::optional<Call> call_from(std::string_view bytes);

/// Calls until destroyed.
class Beacon {
 public:
  /// For a master that listens at `endpoint` ("tcp://HOST:PORT"): on all networks of this machine, or on the host's alone.
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

/// "tcp://HOST:PORT" of the master with that public key, as soon as it calls; nothing once `stop` is set. Throws Error
/// where this machine does not let one listen.
std::optional<std::string> find_master(const std::string& public_key, const std::atomic<bool>& stop);

}  // namespace convoy::wire
