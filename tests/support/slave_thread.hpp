// A slave in a thread of this process, with a device of its own that may lie, for tests.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devices/registry.hpp"
#include "slave/serve.hpp"
#include "tests/support/lying_device.hpp"

namespace convoy {

/// A slave in a thread of this process that serves with a device of its own.
class SlaveThread {
 public:
  /// The sampler reads the meter of the slave's machine; it may be null, and outlives the slave.
  SlaveThread(const std::string& endpoint, const std::string& name, std::unique_ptr<Device> device,
              energy::Sampler* sampler = nullptr)
      : device_(std::move(device)), thread_([this, endpoint, name, sampler] {
          serve({.master = endpoint,
                 .name = name,
                 .sampler = sampler,
                 .leave_patience = std::chrono::seconds(0),
                 .say =
                     [this](const std::string& line) {
                       const std::lock_guard lock(mutex_);
                       said_.push_back(line);
                     }},
                *device_, stop_);
        }) {}
  ~SlaveThread() { end(); }
  SlaveThread(const SlaveThread&) = delete;
  SlaveThread& operator=(const SlaveThread&) = delete;
  /// Whether a line that the slave has said contains these words.
  bool has_said(const std::string& words) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(said_, [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }
  /// Ends the slave, and returns what it said.
  const std::vector<std::string>& end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return said_;
  }

 private:
  std::unique_ptr<Device> device_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<std::string> said_;
  std::thread thread_;
};

inline std::unique_ptr<Device> honest(const std::string& name) { return make_device(name, {.threads = 1}); }
inline std::unique_ptr<Device> liar(const std::string& name, const Lie& lie) {
  return std::make_unique<LyingDevice>(honest(name), lie);
}

}  // namespace convoy
