// Slaves in threads of this process that serve a master at an endpoint, for tests.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "devices/registry.hpp"
#include "slave/serve.hpp"

namespace convoy {

class SlaveThreads {
 public:
  /// Starts `count` slaves named a, b, c, ... which use `devices` in turn.
  SlaveThreads(const std::string& endpoint, int count, const std::vector<std::string>& devices) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, endpoint, i, device = devices[static_cast<std::size_t>(i) % devices.size()]] {
        const auto made = make_device(device, {.threads = 1});
        serve({.master = endpoint,
               .name = std::string(1, static_cast<char>('a' + i)),
               .leave_patience = std::chrono::seconds(0)},
              *made, stop_);
      });
    }
  }
  ~SlaveThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  SlaveThreads(const SlaveThreads&) = delete;
  SlaveThreads& operator=(const SlaveThreads&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace convoy
