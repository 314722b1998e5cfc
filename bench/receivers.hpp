// Processes of this machine that receive timed transfers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace convoy {

/// Receiving processes. The destructor ends them in any case.
class Receivers {
 public:
  /// Forks the processes, so it must run before any socket exists. They wait for start(), which names the endpoint.
  explicit Receivers(int count);
  ~Receivers();
  Receivers(const Receivers&) = delete;
  Receivers& operator=(const Receivers&) = delete;

  /// Has them run receive_transfers() (bench/transfer.hpp).
  void start(const std::string& endpoint, int raw_port, const std::string& key = "");

 private:
  struct Child {
    pid_t pid;
    int pipe;
  };

  std::vector<Child> children_;
};

}  // namespace convoy
