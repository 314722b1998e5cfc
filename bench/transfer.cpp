#include "bench/transfer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "wire/stream.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Channel;
using wire::Clock;

constexpr auto kPatience = 60s;

[[noreturn]] void timed_out(const char* what, std::chrono::seconds patience = kPatience) {
  fail("the other side did not {} within {} s", what, patience.count());
}

enum class Way { raw, frames, tensor };
constexpr std::array<const char*, 3> kWays{"raw", "frames", "tensor"};

/// Announces `count` pieces of `bytes` bytes each. An order travels as the text of a message that benchmarks do not
/// need otherwise.
struct Order {
  Way way = Way::raw;
  std::size_t count = 1;
  std::size_t bytes = 0;
};

wire::Message encode(const Order& order) {
  return wire::Welcome{
      .run = fmt::format("{} {} {}", kWays[static_cast<std::size_t>(order.way)], order.count, order.bytes)};
}

std::optional<Order> decode(const wire::Message& message) {
  const auto* welcome = std::get_if<wire::Welcome>(&message);
  if (welcome == nullptr) return std::nullopt;
  std::istringstream words(welcome->run);
  std::string way;
  Order order;
  words >> way >> order.count >> order.bytes;
  const auto* const found = std::find(kWays.begin(), kWays.end(), way);
  if (!words || found == kWays.end() || order.bytes > kMostTransferBytes)
    fail("'{}' is not an order of this benchmark; both sides must run the same version", welcome->run);
  order.way = static_cast<Way>(found - kWays.begin());
  return order;
}

class Receiver {
 public:
  Receiver(const std::string& endpoint, const std::string& raw_host, int raw_port,
           const std::optional<wire::JoinKey>& key)
      : link_(endpoint, {.max_message_bytes = kMostFrameBytes, .join_key = key}),
        raw_(raw_port > 0 ? RawSocket::connect(raw_host, raw_port) : RawSocket()) {
    answer(wire::Attach{"receiver"});
  }

  /// Executes orders until the sender says goodbye.
  void run() {
    while (true) {
      const wire::Envelope envelope = next();
      if (std::holds_alternative<wire::Bye>(envelope.message)) return;
      const std::optional<Order> order = decode(envelope.message);
      if (!order) continue;
      buffer_.resize(order->bytes / sizeof(float));
      answer(wire::Done{});
      if (order->way == Way::raw) take_raw(*order);
      if (order->way == Way::frames) take_frames(*order);
      if (order->way == Way::tensor) take_tensor();
    }
  }

 private:
  wire::Envelope next() {
    auto from = link_.receive(Clock::now() + kPatience);
    if (!from) timed_out("send the announced data");
    return std::move(from->envelope);
  }
  void answer(const wire::Message& message) { link_.send(Channel::data, {message, {}}, Clock::now() + kPatience); }

  void take_raw(const Order& order) {
    for (std::size_t i = 0; i < order.count; ++i) raw_.receive(buffer_.data(), order.bytes);
    raw_.send("k", 1);
  }
  void take_frames(const Order& order) {
    for (std::size_t i = 0; i < order.count;) {
      if (next().payload.size() == order.bytes) ++i;
    }
    answer(wire::Done{});
  }
  void take_tensor() {
    wire::ValueReader reader({buffer_});
    while (!reader.complete()) {
      const wire::Envelope envelope = next();
      if (const auto* piece = std::get_if<wire::Piece>(&envelope.message)) reader.add(*piece, envelope.payload);
    }
    answer(wire::Done{});
  }

  wire::TcpClientLink link_;
  RawSocket raw_;
  std::vector<float> buffer_;
};

}  // namespace

Shape transfer_shape(std::size_t bytes) {
  return {static_cast<int>(std::max<std::size_t>(1, bytes / 65536)), 4, 64, 64};
}

void receive_transfers(const std::string& endpoint, const std::string& raw_host, int raw_port, const std::string& key) {
  std::optional<wire::JoinKey> join_key;
  if (!key.empty()) join_key = wire::join_key_from(key);
  Receiver(endpoint, raw_host, raw_port, join_key).run();
}

void TransferSender::wait_for_receivers(int count, std::chrono::seconds patience) {
  while (static_cast<int>(peers_.size()) < count) {
    const auto from = link_.receive(Clock::now() + patience);
    if (!from) timed_out("connect", patience);
    if (std::holds_alternative<wire::Attach>(from->envelope.message)) peers_.push_back(from->peer);
  }
}

double TransferSender::send_tensor(const Tensor& tensor) { return send_all({tensor.span()}); }

double TransferSender::send_tensors(const std::vector<Tensor>& tensors) {
  std::vector<std::span<const float>> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.span());
  return send_all(values);
}

double TransferSender::send_all(const std::vector<std::span<const float>>& values) {
  std::size_t bytes = 0;
  for (const std::span<const float>& each : values) bytes += each.size_bytes();
  announce(encode({Way::tensor, 1, bytes}));
  const Stopwatch watch;
  wire::send_values({}, values, [this](const wire::Envelope& piece) { send(piece); });
  await_done();
  return watch.seconds();
}

double TransferSender::send_frames(std::size_t count, std::size_t bytes) {
  const wire::Envelope frame{wire::Piece{}, wire::Payload(bytes)};
  announce(encode({Way::frames, count, bytes}));
  const Stopwatch watch;
  for (std::size_t i = 0; i < count; ++i) send(frame);
  await_done();
  return watch.seconds();
}

double TransferSender::send_raw(RawSocket& raw, std::size_t count, std::size_t bytes) {
  const std::vector<char> buffer(bytes, 1);
  announce(encode({Way::raw, count, bytes}));
  const Stopwatch watch;
  for (std::size_t i = 0; i < count; ++i) raw.send(buffer.data(), bytes);
  char answer = 0;
  raw.receive(&answer, 1);
  return watch.seconds();
}

void TransferSender::dismiss() {
  send({wire::Bye{"measured"}, {}});
  // The wait lets the goodbyes leave before the socket closes.
  link_.receive(Clock::now() + 200ms);
}

void TransferSender::announce(const wire::Message& order) {
  send({order, {}});
  await_done();
}

void TransferSender::send(const wire::Envelope& envelope) {
  for (const std::string& peer : peers_) link_.send(peer, Channel::data, envelope, Clock::now() + kPatience);
}

void TransferSender::await_done() {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!link_.receive(Clock::now() + kPatience)) timed_out("answer");
  }
}

}  // namespace convoy
