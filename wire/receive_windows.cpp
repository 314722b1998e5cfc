#include "wire/receive_windows.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include "wire/buffers.hpp"
#include "wire/monitor.hpp"

namespace convoy::wire {
namespace {

/// Returns the port of this machine at which a TCP connection was accepted; 0 if the descriptor is no such connection.
int port_of(int descriptor) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  if (own.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
  return own.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(own).sin6_port) : 0;
}

}  // namespace

ReceiveWindows::ReceiveWindows(zmq::context_t& context, zmq::socket_t& listening, const std::string& name)
    : listening_(listening), events_(context, zmq::socket_type::pair) {
  const std::string endpoint = "inproc://windows-" + name;
  zmq_socket_monitor(listening.handle(), endpoint.c_str(), ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(endpoint);
}

ReceiveWindows::~ReceiveWindows() {
  // Events must stop before the socket events_ that receives them is destroyed.
  zmq_socket_monitor(listening_.handle(), nullptr, 0);
}

void ReceiveWindows::share(int senders) {
  watch();
  if (senders == senders_) return;
  senders_ = senders;
  for (const int each : connections_) limit(each);
}

void ReceiveWindows::watch() {
  while (const auto event = take_event(events_)) {
    const auto descriptor = static_cast<int>(event->value);
    if (event->kind == ZMQ_EVENT_DISCONNECTED) {
      connections_.erase(descriptor);
    } else {
      connections_.insert(descriptor);
      if (senders_ > 0) limit(descriptor);
    }
  }
}

void ReceiveWindows::limit(int descriptor) const {
  // The event that a connection has ended may come after its descriptor has become that of another connection.
  const std::string endpoint = listening_.get(zmq::sockopt::last_endpoint);
  if (std::to_string(port_of(descriptor)) != endpoint.substr(endpoint.rfind(':') + 1)) return;
  const int bytes = senders_ > 0 ? share_of_card(senders_, segment_of(descriptor)) : kLargestBuffer;
  // An error leaves the window as it is, which costs speed alone.
  setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

}  // namespace convoy::wire
