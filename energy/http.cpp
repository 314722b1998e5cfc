// HTTP requests to plugs: one GET over a connection of its own, in HTTP/1.0, so that no answer comes in chunks.
// Debian's cpp-httplib is a shared library with OpenSSL and Brotli, which the slave for phones would have to link.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/text.hpp"
#include "energy/http_answer.hpp"
#include "energy/machine.hpp"

namespace convoy::energy {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kLargestAnswer = 65536;

struct AddressList {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

/// Splits "192.168.0.7:80" and "[fd00::7]:80"; the port is 80 if there is none.
std::pair<std::string, std::string> host_and_port(const std::string& text) {
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string::npos) return {text, "80"};
    return {text.substr(1, end - 1), text.substr(end + 1).starts_with(':') ? text.substr(end + 2) : "80"};
  }
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || text.find(':') != colon) return {text, "80"};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

class Connection {
 public:
  Connection(const std::string& host, Steady::time_point deadline) : host_(printable(host, 80)), deadline_(deadline) {
    const auto [address, port] = host_and_port(host);
    addrinfo hints{};
    // Looking a name up may take longer than any deadline, so the address is in numbers.
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0) {
      fail("'{}' is no address in numbers; give one such as 192.168.0.7", host_);
    }
    const std::unique_ptr<addrinfo, AddressList> list(found);
    socket_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) fail("{}: {}", host_, std::strerror(errno));
    if (::connect(socket_, found->ai_addr, found->ai_addrlen) == 0) return;
    int code = errno;
    if (code == EINPROGRESS && wait(POLLOUT)) {
      socklen_t size = sizeof(code);
      getsockopt(socket_, SOL_SOCKET, SO_ERROR, &code, &size);
      if (code == 0) return;
    }
    ::close(socket_);
    fail("{} cannot be reached: {}", host_, code == EINPROGRESS ? "it does not answer" : std::strerror(code));
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno != EAGAIN || !wait(POLLOUT)) {
        fail("{} takes no request", host_);
      }
    }
  }

  /// Returns everything up to the end of the answer or of the connection.
  std::string receive() const {
    std::string text;
    std::array<char, 4096> part{};
    while (true) {
      const ssize_t got = ::recv(socket_, part.data(), part.size(), 0);
      if (got == 0) return text;
      if (got > 0) {
        text.append(part.data(), static_cast<std::size_t>(got));
        if (text.size() > kLargestAnswer) fail("{} sends more than {} bytes", host_, kLargestAnswer);
        if (is_whole_answer(text)) return text;
      } else if (errno != EAGAIN) {
        fail("{}: {}", host_, std::strerror(errno));
      } else if (!wait(POLLIN)) {
        fail("{} does not answer in time", host_);
      }
    }
  }

 private:
  bool wait(short events) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Steady::now()).count();
    pollfd waiting{.fd = socket_, .events = events, .revents = 0};
    return left > 0 && poll(&waiting, 1, static_cast<int>(left)) > 0;
  }

  std::string host_;
  Steady::time_point deadline_;
  int socket_ = -1;
};

}  // namespace

std::string http_get(const std::string& host, const std::string& target, double seconds) {
  const Connection connection(host, Steady::now() + std::chrono::milliseconds(std::llround(1000 * seconds)));
  connection.send(fmt::format("GET {} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n", target, host));
  return body_of_answer(connection.receive(), host, target);
}

}  // namespace convoy::energy
