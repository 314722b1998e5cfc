#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "wire/codec.hpp"
#include "wire/socket.hpp"

namespace convoy::wire {

Payload::Payload() : state_(std::make_unique<State>()) {}
Payload::Payload(std::size_t bytes) : state_(std::make_unique<State>(State{zmq::message_t(bytes)})) {}
Payload::Payload(const Payload& other) : state_(std::make_unique<State>()) {
  state_->message.copy(other.state_->message);
}
Payload& Payload::operator=(const Payload& other) {
  if (this != &other) state_->message.copy(other.state_->message);
  return *this;
}
Payload::Payload(Payload&& other) noexcept : Payload() { state_.swap(other.state_); }
Payload& Payload::operator=(Payload&& other) noexcept {
  state_.swap(other.state_);
  return *this;
}
Payload::~Payload() = default;

Payload::Payload(std::shared_ptr<const void> owner, std::span<const std::byte> bytes) : Payload() {
  using Owner = std::shared_ptr<const void>;
  auto keep = std::make_unique<Owner>(std::move(owner));
  // ZeroMQ's interface takes mutable bytes, but ZeroMQ never writes to them.
  state_->message.rebuild(
      const_cast<std::byte*>(bytes.data()), bytes.size(),
      [](void*, void* hint) { const std::unique_ptr<Owner> drop(static_cast<Owner*>(hint)); }, keep.release());
}

std::size_t Payload::size() const { return state_->message.size(); }
std::span<std::byte> Payload::bytes() { return {state_->message.data<std::byte>(), size()}; }
std::span<const std::byte> Payload::bytes() const { return {state_->message.data<std::byte>(), size()}; }

std::span<float> Payload::floats() {
  if (size() % sizeof(float) != 0) fail("a payload of {} bytes is not a whole number of floats", size());
  return {state_->message.data<float>(), size() / sizeof(float)};
}
std::span<const float> Payload::floats() const {
  if (size() % sizeof(float) != 0) fail("a payload of {} bytes is not a whole number of floats", size());
  return {state_->message.data<float>(), size() / sizeof(float)};
}

Payload PayloadAccess::wrap(zmq::message_t&& message) {
  Payload payload;
  // A received frame may begin at any byte of the receive buffer; floats need alignment.
  if (reinterpret_cast<std::uintptr_t>(message.data()) % alignof(float) != 0) {
    payload.state_->message.rebuild(message.data(), message.size());
  } else {
    payload.state_->message = std::move(message);
  }
  return payload;
}

zmq::message_t PayloadAccess::share(const Payload& payload) {
  zmq::message_t message;
  message.copy(payload.state_->message);
  return message;
}

Frames receive_frames(zmq::socket_t& socket) {
  Frames frames;
  bool more = true;
  while (more) {
    zmq::message_t frame;
    if (!socket.recv(frame, zmq::recv_flags::dontwait)) break;
    more = frame.more();
    if (frames.count == 0) {
      frames.header = std::move(frame);
    } else if (frames.count == 1) {
      frames.payload = std::move(frame);
    }
    ++frames.count;
  }
  return frames;
}

Envelope decode_frames(Frames&& frames) {
  if (frames.count == 0 || frames.count > 2)
    fail("a message of {} frames came; a message has one or two frames", frames.count);
  Envelope envelope{decode({frames.header.data<std::byte>(), frames.header.size()}), {}};
  const bool piece = std::holds_alternative<Piece>(envelope.message);
  if (piece != (frames.count == 2)) {
    fail("{} came {} a payload frame", name_of(envelope.message), piece ? "without" : "with");
  }
  if (!piece) return envelope;
  if (frames.payload.size() == 0) fail("a Piece came without values");
  envelope.payload = PayloadAccess::wrap(std::move(frames.payload));
  return envelope;
}

bool send_frames(zmq::socket_t& socket, const Envelope& envelope) {
  const std::vector<std::byte> header = encode(envelope.message);
  const auto flags = zmq::send_flags::dontwait;
  const bool more = !envelope.payload.empty();
  zmq::message_t first(header.data(), header.size());
  if (!socket.send(first, more ? flags | zmq::send_flags::sndmore : flags)) return false;
  if (!more) return true;
  zmq::message_t payload = PayloadAccess::share(envelope.payload);
  // A socket that accepted the first frame of a message accepts the whole message.
  return socket.send(payload, flags).has_value();
}

void configure(zmq::socket_t& socket, const LinkOptions& options) {
  // Milliseconds: long enough for a Bye to leave, short enough that a peer that reads nothing delays nobody.
  socket.set(zmq::sockopt::linger, 300);
  constexpr std::size_t kEncryption = 64;  // bytes, more than CURVE adds to a frame
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options.max_message_bytes + kEncryption));
  // High-water marks count messages. Queued messages to send share the memory of the maps, so the send queue may be
  // long; the receive queue holds messages that nobody requested and must stay short.
  socket.set(zmq::sockopt::sndhwm, 8192);
  socket.set(zmq::sockopt::rcvhwm, 32);
}

void configure_control(zmq::socket_t& socket, const LinkOptions& options) {
  // The master's Pings pile up while a slave computes; the queue has room for those of an hour. If the queue were full,
  // ZeroMQ would not read the answers to heartbeats behind it and would give up the connection.
  socket.set(zmq::sockopt::rcvhwm, 1 << 14);
  socket.set(zmq::sockopt::maxmsgsize, std::int64_t{1} << 16);
  socket.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(options.heartbeat_interval.count()));
  socket.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(options.heartbeat_timeout.count()));
  socket.set(zmq::sockopt::heartbeat_ttl, static_cast<int>(options.heartbeat_timeout.count()));
}

void connect(zmq::socket_t& socket, const Address& to, const std::string& own_id, bool name_in_ipv6) {
  constexpr auto kAttemptAtAName = std::chrono::milliseconds(5000);
  const bool name = !is_ipv4(to.host) && !is_ipv6(to.host);
  socket.set(zmq::sockopt::routing_id, own_id);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 2000);
  if (name) socket.set(zmq::sockopt::connect_timeout, static_cast<int>(kAttemptAtAName.count()));
  socket.set(zmq::sockopt::ipv6, name ? name_in_ipv6 : is_ipv6(to.host));
  socket.connect("tcp://" + to_text(to));
}

void listen(zmq::socket_t& socket, const Address& address) {
  // A network interface is looked up in one family at a time; an IPv6 socket for all addresses takes IPv4 too.
  std::vector<bool> families{false, true};
  if (address.host == "*") families = {true, false};
  if (is_ipv4(address.host)) families = {false};
  if (is_ipv6(address.host)) families = {true};
  for (const bool ipv6 : families) {
    socket.set(zmq::sockopt::ipv6, ipv6);
    try {
      socket.bind("tcp://" + to_text(address));
      return;
    } catch (const zmq::error_t& error) {
      constexpr std::array<int, 4> kNotInThisFamily{EAFNOSUPPORT, EADDRNOTAVAIL, ENODEV, EINVAL};
      if (ipv6 == families.back() || std::ranges::find(kNotInThisFamily, error.num()) == kNotInThisFamily.end()) throw;
    }
  }
}

std::chrono::milliseconds remaining(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

bool poll(zmq::socket_t& socket, short event, Deadline deadline) {
  zmq::pollitem_t item{socket.handle(), 0, event, 0};
  try {
    return zmq::poll(&item, 1, remaining(deadline)) > 0;
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return false;
    throw;
  }
}

}  // namespace convoy::wire
