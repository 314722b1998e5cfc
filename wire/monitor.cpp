#include "wire/monitor.hpp"

#include <algorithm>
#include <cstdint>

namespace convoy::wire {
namespace {

constexpr int kHandshakeFailed =
    ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kWatched = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                         ZMQ_EVENT_DISCONNECTED | kHandshakeFailed;

bool is_encrypted(zmq::socket_t& socket) {
  int mechanism = ZMQ_NULL;
  std::size_t size = sizeof mechanism;
  return zmq_getsockopt(socket.handle(), ZMQ_MECHANISM, &mechanism, &size) == 0 && mechanism == ZMQ_CURVE;
}

std::string fault(std::uint16_t event, std::uint32_t value, bool encrypted) {
  const std::string mend =
      "start this slave with the CONVOY_KEY that the master prints now, or start both with --insecure";
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    return "the master does not accept the key of this slave, which may be revoked, used up, or of another master; " +
           mend;
  }
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
    return "only one of the master and this slave was started with --insecure; " + mend;
  }
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && value != ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC) {
    return "the program at this address does not speak Convoy's protocol; check the master's host and port";
  }
  if (!encrypted) {
    return "the program at this address closes the connection: it is a master that was started without --insecure, or "
           "no "
           "master; start both in the same way, and check the master's host and port";
  }
  return "the master closes the connection, probably because this slave has another key; " + mend;
}

}  // namespace

Monitor::Monitor(zmq::context_t& context, zmq::socket_t& watched, const std::string& name)
    : watched_(watched), events_(context, zmq::socket_type::pair) {
  const std::string endpoint = "inproc://monitor-" + name;
  zmq_socket_monitor(watched.handle(), endpoint.c_str(), kWatched);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(endpoint);
}

Monitor::~Monitor() {
  // Events must stop before the socket events_ that receives them is destroyed.
  zmq_socket_monitor(watched_.handle(), nullptr, 0);
}

std::optional<SocketEvent> take_event(zmq::socket_t& events) {
  zmq::message_t message;
  if (!events.recv(message, zmq::recv_flags::dontwait)) return std::nullopt;
  SocketEvent event;
  const auto* bytes = message.data<std::uint8_t>();
  std::copy_n(bytes, sizeof event.kind, reinterpret_cast<std::uint8_t*>(&event.kind));
  std::copy_n(bytes + sizeof event.kind, sizeof event.value, reinterpret_cast<std::uint8_t*>(&event.value));
  zmq::message_t address;
  if (message.more() && !events.recv(address)) return std::nullopt;
  return event;
}

bool Monitor::watch() {
  while (const auto event = take_event(events_)) {
    if (!take(event->kind, event->value)) return false;
  }
  return true;
}

/// ZeroMQ has an event for every attempt to connect except the first. If an attempt begins without a connection since
/// the last one, the last attempt failed.
bool Monitor::take(std::uint16_t event, std::uint32_t value) {
  if (event == ZMQ_EVENT_CONNECTED) {
    connecting_ = false;
    connected_ = Clock::now();
    descriptor_ = static_cast<int>(value);
  } else if (event == ZMQ_EVENT_CONNECT_RETRIED) {
    if (connecting_) {
      failed_ = true;
      handshake_fault_.clear();
    }
    connecting_ = true;
  } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    stands_ = true;
    connected_.reset();
    handshake_fault_.clear();
  } else if ((event & kHandshakeFailed) != 0) {
    handshake_fault_ = fault(event, value, is_encrypted(watched_));
    not_admitted_ = event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    connected_.reset();
    descriptor_.reset();
  } else if (event == ZMQ_EVENT_DISCONNECTED) {
    connected_.reset();
    descriptor_.reset();
    return !std::exchange(stands_, false);
  }
  return true;
}

std::optional<Clock::duration> Monitor::silent() const {
  if (!connected_) return std::nullopt;
  return Clock::now() - *connected_;
}

}  // namespace convoy::wire
