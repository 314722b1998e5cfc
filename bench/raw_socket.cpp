#include "bench/raw_socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>

#include "core/error.hpp"

namespace convoy {

RawSocket::RawSocket(int handle) : handle_(handle) {
  const int on = 1;
  setsockopt(handle_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

RawSocket::~RawSocket() {
  if (handle_ >= 0) close(handle_);
}

RawSocket RawSocket::connect(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    fail("{}: the host name cannot be resolved", host);
  const int handle = socket(found->ai_family, found->ai_socktype, 0);
  const int result = ::connect(handle, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  RawSocket made(handle);
  if (result != 0) fail("{}:{}: the connection failed; check that the other side listens there", host, port);
  return made;
}

std::pair<std::string, int> RawSocket::split(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  int port = 0;
  if (endpoint.rfind("tcp://", 0) == 0 && colon > 6) {
    std::from_chars(endpoint.data() + colon + 1, endpoint.data() + endpoint.size(), port);
  }
  if (port < 1 || port > 65534) fail("'{}': expected tcp://HOST:PORT", endpoint);
  return {endpoint.substr(6, colon - 6), port};
}

void RawSocket::send(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::send(handle_, at, bytes, MSG_NOSIGNAL);
    if (done <= 0) fail("the raw connection broke; the other process may have ended");
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

void RawSocket::receive(void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t done = recv(handle_, at, bytes, 0);
    if (done <= 0) fail("the raw connection broke; the other process may have ended");
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

RawListener::RawListener(int port, bool everywhere) : handle_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(handle_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(handle_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(handle_, 1) != 0) {
    close(handle_);
    fail("port {}: cannot listen; another program may use the port", port);
  }
}

RawListener::~RawListener() { close(handle_); }

int RawListener::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(handle_, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

RawSocket RawListener::accept() { return RawSocket(::accept(handle_, nullptr, nullptr)); }

}  // namespace convoy
