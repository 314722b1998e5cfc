#include "wire/refusals.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "wire/endpoint.hpp"

namespace convoy::wire {
namespace {

constexpr const char* kEndpoint = "inproc://refusals";
constexpr std::size_t kMostKept = 64;
constexpr int kAuthFailed = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kProtocolFailed = ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
constexpr int kBrokenOff = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

/// The IP address at the other end of a connection.
std::string address_of(std::uint32_t descriptor) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getpeername(static_cast<int>(descriptor), address, &size) != 0) return "an unknown address";
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  return plain_ip(text.data());
}

std::string reason(std::uint16_t event, std::uint32_t value, bool encrypted) {
  if (event == kAuthFailed) return "";  // the gatekeeper keeps the reason
  if (event == kBrokenOff) {
    return encrypted ? "it closed the connection before it showed a key; it may have another key, or none"
                     : "it closed the connection before it said what it is; if it is a slave, it tries again";
  }
  if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) return "only one side was started with --insecure";
  if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC) return "it does not have this master's key";
  return "it does not speak the protocol";
}

}  // namespace

Refusals::Refusals(zmq::context_t& context, zmq::socket_t& watched, bool encrypted)
    : watched_(watched), encrypted_(encrypted), events_(context, zmq::socket_type::pair) {
  zmq_socket_monitor(watched.handle(), kEndpoint,
                     ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | kAuthFailed | kProtocolFailed | kBrokenOff);
  events_.set(zmq::sockopt::linger, 0);
  events_.set(zmq::sockopt::rcvtimeo, 50);  // lets the thread check stop_
  events_.connect(kEndpoint);
  thread_ = std::thread([this] {
    while (!stop_) follow();
  });
}

Refusals::~Refusals() {
  stop_ = true;
  thread_.join();
  zmq_socket_monitor(watched_.handle(), nullptr, 0);
}

std::vector<Refusal> Refusals::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(refusals_, {});
}

/// An event has two frames: the first holds its number and value, the second the listening endpoint.
void Refusals::follow() {
  zmq::message_t frame;
  zmq::message_t endpoint;
  if (!events_.recv(frame) || frame.size() != sizeof(std::uint16_t) + sizeof(std::uint32_t)) return;
  if (frame.more() && !events_.recv(endpoint)) return;
  std::uint16_t event = 0;
  std::uint32_t value = 0;
  const auto* bytes = frame.data<std::uint8_t>();
  std::copy_n(bytes, sizeof event, reinterpret_cast<std::uint8_t*>(&event));
  std::copy_n(bytes + sizeof event, sizeof value, reinterpret_cast<std::uint8_t*>(&value));
  take_event(event, value);
}

/// ZeroMQ has one thread, which reports a failed handshake and, as the next event, the connection that it closes.
void Refusals::take_event(std::uint16_t event, std::uint32_t value) {
  if (event == ZMQ_EVENT_ACCEPTED) {
    addresses_[value] = address_of(value);
  } else if (event == ZMQ_EVENT_DISCONNECTED) {
    const auto known = addresses_.find(value);
    const std::string why = std::exchange(why_, {});
    if (known == addresses_.end()) return;
    const std::string address = std::move(known->second);
    addresses_.erase(known);
    if (why.empty()) return;
    const std::scoped_lock lock(mutex_);
    if (refusals_.size() < kMostKept) refusals_.push_back({address, why});
  } else {
    why_ = reason(event, value, encrypted_);
  }
}

}  // namespace convoy::wire
