// A plain blocking TCP connection, the baseline for Convoy's transport.
#pragma once

#include <string>
#include <utility>

namespace convoy {

/// A connected TCP socket, closed by the destructor.
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

  /// Connects. Throws Error naming the host where it cannot be reached.
  static RawSocket connect(const std::string& host, int port);
  /// Splits "tcp://host:port" into host and port. Throws Error for any other text.
  static std::pair<std::string, int> split(const std::string& endpoint);

  /// Send or receive all of the bytes. Throw Error when the other side has closed the connection.
  void send(const void* data, std::size_t bytes);
  void receive(void* data, std::size_t bytes);

 private:
  int handle_ = -1;
};

/// A listening TCP socket, closed by the destructor.
class RawListener {
 public:
  /// Listens on loopback, or on all interfaces; port 0 picks a free port.
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
