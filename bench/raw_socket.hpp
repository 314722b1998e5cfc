// A plain blocking TCP connection: what our wire is measured against.
#pragma once

#include <string>
#include <utility>

namespace convoy {

class RawSocket {
 public:
  RawSocket() = default;
  explicit RawSocket(int handle);
  ~RawSocket();
  RawSocket(RawSocket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  RawSocket& operator=(RawSocket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  /// Throws Error naming the host when it cannot be reached.
  static RawSocket connect(const std::string& host, int port);
  /// "tcp://host:port" to its parts. Throws Error for anything else.
  static std::pair<std::string, int> split(const std::string& endpoint);

  /// All of the bytes; throw Error when the other side is gone.
  void send(const void* data, std::size_t bytes);
  void receive(void* data, std::size_t bytes);

 private:
  int handle_ = -1;
};

class RawListener {
 public:
  /// On loopback, or on all interfaces; port 0 picks a free one.
  RawListener(int port, bool everywhere);
  ~RawListener();
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;
  int port() const;
  RawSocket accept();

 private:
  int handle_;
};

}  // namespace convoy
