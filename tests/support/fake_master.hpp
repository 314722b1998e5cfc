// A master whose messages a test sends one by one, and a slave in a thread, for tests of slaves.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "devices/registry.hpp"
#include "plan/task_graph.hpp"
#include "slave/serve.hpp"
#include "wire/tcp_link.hpp"

namespace convoy {

using namespace std::chrono_literals;
using wire::Channel;
using wire::Clock;

inline constexpr std::uint32_t kBatch = 2;

inline Stage stage() {
  return {.name = "conv1",
          .channels = 1,
          .height = 6,
          .width = 6,
          .conv = {.filters = 4, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
          .after = {Activation::relu}};
}

/// An Assign that gives all filters of one stage to one slave.
inline wire::Assign assign_of(std::uint32_t batch = kBatch) {
  return {.trunk = {stage()},
          .plan = proportional_plan({stage()}, static_cast<int>(batch), {"worker"}, {1.0}),
          .node = 0,
          .token = "token",
          .peers = {}};
}

inline constexpr std::size_t kImages = kBatch * 6 * 6;  ///< bytes

/// A slave that serves in a thread until it is destroyed.
class SlaveThread {
 public:
  explicit SlaveThread(const std::string& endpoint, std::size_t memory = 0)
      : thread_([this, endpoint, memory] {
          const auto device = make_device("reference", {.threads = 1});
          serve({.master = endpoint, .name = "worker", .memory = memory, .leave_patience = 0s}, *device, stop_);
          over_ = true;
        }) {}
  ~SlaveThread() {
    stop_ = true;
    thread_.join();
  }
  SlaveThread(const SlaveThread&) = delete;
  SlaveThread& operator=(const SlaveThread&) = delete;
  bool over() const { return over_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

inline wire::Step step_of(std::uint64_t number, const Pass& pass) {
  return {number, {.pass = pass, .scales = {ChannelScale{}}}};
}
inline wire::Step training_step(std::uint64_t number) { return step_of(number, {.training = true}); }

/// The task that sends the images in a step of assign_of().
inline std::uint32_t images_task() {
  const wire::Assign assign = assign_of();
  const TaskGraph graph = make_task_graph(assign.plan, assign.trunk);
  const auto task = std::ranges::find_if(
      graph.tasks, [](const Task& each) { return each.kind == TaskKind::send && each.stage == Source::kImages; });
  return static_cast<std::uint32_t>(task - graph.tasks.begin());
}

/// A master whose messages the test sends one by one.
class FakeMaster {
 public:
  explicit FakeMaster(const std::string& endpoint = "tcp://127.0.0.1:*")
      : link_(std::make_unique<wire::TcpServerLink>(endpoint)) {}

  std::string endpoint() const { return link_->endpoint(); }
  /// Admits the next slave that says Hello and waits for its data connection. Returns false after 20 s without one.
  bool welcome() {
    const auto until = Clock::now() + 20s;
    while (Clock::now() < until) {
      const auto from = link_->receive(until);
      if (!from) continue;
      const auto* hello = std::get_if<wire::Hello>(&from->envelope.message);
      if (hello != nullptr && from->peer != peer_) {
        peer_port_ = static_cast<int>(hello->peer_port);
        fresh_ = from->peer;
        link_->send(fresh_, Channel::control, {wire::Welcome{wire::kProtocolVersion, "run"}, {}}, Clock::now() + 5s);
      } else if (std::holds_alternative<wire::Attach>(from->envelope.message) && from->peer == fresh_) {
        peer_ = fresh_;
        return true;
      }
    }
    return false;
  }
  void send(const wire::Message& message, Channel channel = Channel::data) { send({message, {}}, channel); }
  void send(const wire::Envelope& envelope, Channel channel = Channel::data) {
    link_->send(peer_, channel, envelope, Clock::now() + 5s);
  }
  void send_piece(const wire::Piece& piece, std::size_t bytes) {
    wire::Envelope envelope{piece, wire::Payload(bytes)};
    std::ranges::fill(envelope.payload.bytes(), std::byte{0});
    send(envelope);
  }
  /// Assigns assign_of() and waits for the answer.
  void assign() {
    send(assign_of());
    next();
  }
  /// The next message on the data connection besides Ping and Assigned; Failed("nothing came") after 20 s.
  wire::Message next() { return next_envelope().message; }
  wire::Envelope next_envelope() {
    const auto until = Clock::now() + 20s;
    while (Clock::now() < until) {
      const auto from = link_->receive(until);
      if (!from || from->channel != Channel::data || from->peer != peer_) continue;
      const wire::Message& message = from->envelope.message;
      if (std::holds_alternative<wire::Ping>(message) || std::holds_alternative<wire::Assigned>(message)) continue;
      return from->envelope;
    }
    return {wire::Failed{"nothing came"}, {}};
  }
  /// The reason of the next message, which should be Failed, or the name of another message.
  std::string failure() {
    const wire::Message message = next();
    const auto* failed = std::get_if<wire::Failed>(&message);
    return failed == nullptr ? wire::name_of(message) : failed->reason;
  }
  /// Whether the slave sends a Ping on its data connection within 5 s. Other messages are dropped.
  bool hears_ping() {
    const auto until = Clock::now() + 5s;
    while (Clock::now() < until) {
      const auto from = link_->receive(until);
      if (from && from->channel == Channel::data && std::holds_alternative<wire::Ping>(from->envelope.message)) {
        return true;
      }
    }
    return false;
  }
  void go_away() { link_.reset(); }
  /// The port at which the slave listens for other slaves.
  int peer_port() const { return peer_port_; }

 private:
  std::unique_ptr<wire::ServerLink> link_;
  std::string peer_;
  std::string fresh_;
  int peer_port_ = 0;
};

/// An Assign of a plan in which the slave and `other` hold half of the filters each, with `moves` of states.
inline wire::Assign halves(const FakeMaster& master, const wire::ClientLink& other,
                           const std::vector<wire::StateMove>& moves) {
  wire::Assign assign = assign_of();
  assign.plan = proportional_plan(assign.trunk, kBatch, {"worker", "other"}, {1.0, 1.0});
  assign.plan.exchange = Exchange::ring;
  assign.peers = {fmt::format(":{}", master.peer_port()), fmt::format("127.0.0.1:{}", other.peer_port())};
  assign.token = "halves";
  assign.keep = true;
  assign.moves = moves;
  return assign;
}

}  // namespace convoy
