// Slaves that die during a run, for tests.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_slave.hpp"

namespace convoy {

/// Each slave serves in a thread of its own.
class MortalSlaves {
 public:
  ~MortalSlaves() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  /// Adds a slave that vanishes at the message `at`, after `spared` such messages.
  void add(const std::string& endpoint, const std::string& name, const std::string& at, int spared) {
    slaves_.emplace_back(
        endpoint, at, [](FakeSlave& slave) { slave.vanish(); },
        FakeSlave::Options{.name = name, .spared = spared, .reachable = true});
    threads_.emplace_back([this, &slave = slaves_.back()] { slave.run(stop_); });
  }

 private:
  std::atomic<bool> stop_{false};
  std::list<FakeSlave> slaves_;
  std::vector<std::thread> threads_;
};

}  // namespace convoy
