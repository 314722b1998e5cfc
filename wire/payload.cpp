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
  // ZeroMQ asks for bytes that it may write to, and does not.
  state_->message.rebuild(
      const_cast<std::byte*>(bytes.data()), bytes.size(),
      [](void*, void* hint) { const std::unique_ptr<Owner> drop(static_cast<Owner*>(hint)); }, keep.release());
}

std::size_t Payload::size() const { return state_->message.size(); }
std::span<std::byte> Payload::bytes() { return {state_->message.data<std::byte>(), size()}; }
std::span<const std::byte> Payload::bytes() const { return {state_->message.data<std::byte>(), size()}; }

std::span<float> Payload::floats() {
  if (size() % sizeof(float) != 0) fail("a payload of {} bytes holds no whole number of floats", size());
  return {state_->message.data<float>(), size() / sizeof(float)};
}
std::span<const float> Payload::floats() const {
  if (size() % sizeof(float) != 0) fail("a payload of {} bytes holds no whole number of floats", size());
  return {state_->message.data<float>(), size() / sizeof(float)};
}

Payload PayloadAccess::wrap(zmq::message_t&& message) {
  Payload payload;
  // A received frame may begin anywhere in the receive buffer; floats must not.
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
  if (frames.count == 0 || frames.count > 2) fail("a message of {} frames", frames.count);
  Envelope envelope{decode({frames.header.data<std::byte>(), frames.header.size()}), {}};
  const bool piece = std::holds_alternative<Piece>(envelope.message);
  if (piece != (frames.count == 2)) {
    fail("{} {} a payload frame", name_of(envelope.message), piece ? "without" : "with");
  }
  if (!piece) return envelope;
  if (frames.payload.size() == 0) fail("a Piece without values");
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
  // Once its first frame is taken, a message is taken whole.
  return socket.send(payload, flags).has_value();
}

void configure(zmq::socket_t& socket, const LinkOptions& options) {
  // Long enough for a farewell to leave, short enough that a peer which takes nothing holds nobody up.
  socket.set(zmq::sockopt::linger, 300);
  constexpr std::size_t kEncryption = 64;  // more than it adds to a frame
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options.max_message_bytes + kEncryption));
  // High-water marks count messages. What is sent shares one set of maps, so its queue may be long; what a peer
  // sends unasked must stay small.
  socket.set(zmq::sockopt::sndhwm, 8192);
  socket.set(zmq::sockopt::rcvhwm, 32);
}

void configure_control(zmq::socket_t& socket, const LinkOptions& options) {
  // The master's pings pile up while a slave computes, for an hour at most. In a full queue the answers to heartbeats
  // would stand behind them, and the connection would be given up.
  socket.set(zmq::sockopt::rcvhwm, 1 << 14);
  socket.set(zmq::sockopt::maxmsgsize, std::int64_t{1} << 16);
  socket.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(options.heartbeat_interval.count()));
  socket.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(options.heartbeat_timeout.count()));
  socket.set(zmq::sockopt::heartbeat_ttl, static_cast<int>(options.heartbeat_timeout.count()));
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
