// Somebody who sends a master's call from addresses where this master does not listen.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace convoy {

/// While it lives, it broadcasts on this machine the call of a master with this public key, 95 times a second and from
/// 200 addresses 127.0.0.x in turns. A port that accepts connections and never answers is the master's in every second
/// call; nobody listens at the others.
class FalseCaller {
 public:
  explicit FalseCaller(std::string public_key);
  ~FalseCaller();
  FalseCaller(const FalseCaller&) = delete;
  FalseCaller& operator=(const FalseCaller&) = delete;

 private:
  void call(int number) const;

  std::string public_key_;
  int silent_;  ///< the socket that accepts connections
  int silent_port_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace convoy
