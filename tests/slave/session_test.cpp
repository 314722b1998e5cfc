// A slave under masters that err, break the protocol, or go away: it says so and serves the next run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <zmq.hpp>

#include "devices/registry.hpp"
#include "slave/serve.hpp"
#include "wire/link.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using wire::Channel;
using wire::Clock;

constexpr std::uint32_t kBatch = 2;

Stage stage() {
  return {.name = "conv1",
          .channels = 1,
          .height = 6,
          .width = 6,
          .conv = {.filters = 4, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
          .after = {Activation::relu}};
}

/// All of one stage on one slave.
wire::Assign assign_of(std::uint32_t batch = kBatch) {
  return {.trunk = {stage()},
          .plan = proportional_plan({stage()}, static_cast<int>(batch), {"worker"}, {1.0}),
          .node = 0,
          .token = "token",
          .peers = {}};
}

constexpr std::size_t kImages = sizeof(float) * kBatch * 6 * 6;

/// A slave in a thread.
class SlaveThread {
 public:
  explicit SlaveThread(const std::string& endpoint, std::size_t memory = 0)
      : thread_([this, endpoint, memory] {
          const auto device = make_device("reference", {.threads = 1});
          serve({.master = endpoint, .name = "worker", .memory = memory}, *device, stop_);
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

/// A master of which every message is written out.
class FakeMaster {
 public:
  explicit FakeMaster(const std::string& endpoint = "tcp://127.0.0.1:*")
      : link_(std::make_unique<wire::ServerLink>(endpoint)) {}

  std::string endpoint() const { return link_->endpoint(); }
  /// Takes the next slave that says hello into a run, and waits for its data connection.
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
  /// Has the slave hold its shard.
  void assign() {
    send(assign_of());
    next();
  }
  /// The next message on the data connection.
  wire::Message next() {
    const auto until = Clock::now() + 20s;
    while (Clock::now() < until) {
      const auto from = link_->receive(until);
      if (!from || from->channel != Channel::data || from->peer != peer_) continue;
      if (!std::holds_alternative<wire::Ping>(from->envelope.message)) return from->envelope.message;
    }
    return wire::Failed{"nothing came"};
  }
  std::string failure() {
    const wire::Message message = next();
    const auto* failed = std::get_if<wire::Failed>(&message);
    return failed == nullptr ? wire::name_of(message) : failed->reason;
  }
  void go_away() { link_.reset(); }
  /// Where the slave listens for others.
  int peer_port() const { return peer_port_; }

 private:
  std::unique_ptr<wire::ServerLink> link_;
  std::string peer_;
  std::string fresh_;
  int peer_port_ = 0;
};

// ---- tasks that cannot be done: answered with Failed ---------------------------------------------------------------

struct BadTask {
  std::string name;
  void (*give)(FakeMaster& master);
  std::string says;
};

void PrintTo(const BadTask& bad, std::ostream* out) { *out << bad.name; }

const std::vector<BadTask> kBadTasks{
    {"NoPlan",
     [](FakeMaster& m) {
       m.send(wire::Step{1, {}});
     },
     "there is no plan here yet"},
    {"NoPlanToLoad",
     [](FakeMaster& m) {
       m.send(wire::Load{0, {0, 1}});
     },
     "there is no plan here yet"},
    {"NoStageToLoad",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Load{1, {0, 1}});
     },
     "of stage 1 are computed here"},
    {"NoStageToSnapshot",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Snapshot{1, {0, 1}});
     },
     "of stage 1 are in a shard here"},
    {"NotATask", [](FakeMaster& m) { m.send(wire::Done{}); }, "a master does not send Done"},
    {"APieceByItself", [](FakeMaster& m) { m.send_piece({.step = 1}, 4); }, "there is no plan here yet"},
    {"TooLargeToHold", [](FakeMaster& m) { m.send(assign_of(4096)); }, "raise --memory"},
    {"TooLargeToTime", [](FakeMaster& m) { m.send(wire::Calibrate{.stage = stage(), .filters = 4, .batch = 4096}); },
     "raise --memory"},
    {"NoAddressOfAPeer",
     [](FakeMaster& m) {
       wire::Assign assign = assign_of();
       assign.trunk.push_back({.name = "conv2",
                               .channels = 4,
                               .height = 6,
                               .width = 6,
                               .conv = {.filters = 2, .kernel_h = 1, .kernel_w = 1},
                               .after = {}});
       assign.plan = proportional_plan(assign.trunk, kBatch, {"worker", "other"}, {1.0, 1.0});
       assign.plan.exchange = Exchange::ring;
       m.send(assign);
     },
     "Unreached"},
    {"StepOutOfTurn",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{2, {}});
     },
     "step 2 where 1 was due"},
    {"UpdateWithoutStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Update{});
     },
     "an Update without a step"},
    {"SnapshotInAStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{1, {.training = true}});
       m.send(wire::Snapshot{0, {0, 1}});
     },
     "in the middle of a step"},
    {"PieceOfAnotherStep",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{1, {.training = true}});
       m.send_piece({.step = 2}, kImages);
     },
     "a Piece of step 2 in step 1"},
    {"TooManyImages",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{1, {.training = true}});
       m.send_piece({.step = 1}, kImages + 4);
     },
     "292 bytes from value 0 on"},
    {"ImagesTwice",
     [](FakeMaster& m) {
       m.assign();
       m.send(wire::Step{1, {.training = true}});
       m.send_piece({.step = 1}, kImages / 2);
       m.send_piece({.step = 1}, kImages / 2);
     },
     "from value 0 on of task 0, where values 36 to 72"},
};

class BadTasks : public testing::TestWithParam<BadTask> {};

TEST_P(BadTasks, AreAnsweredWithTheReason) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint(), std::size_t{1} << 20);
  ASSERT_TRUE(master.welcome());
  GetParam().give(master);
  EXPECT_THAT(master.failure(), HasSubstr(GetParam().says));
  master.send(wire::Bye{"enough"}, Channel::control);
  EXPECT_TRUE(master.welcome()) << "it comes back for the next run";
  EXPECT_FALSE(slave.over());
}

INSTANTIATE_TEST_SUITE_P(Table, BadTasks, testing::ValuesIn(kBadTasks),
                         [](const auto& each) { return each.param.name; });

// ---- masters that break off: the slave comes back ------------------------------------------------------------------

struct BrokenRun {
  std::string name;
  void (*spoil)(FakeMaster& master);
};

void PrintTo(const BrokenRun& broken, std::ostream* out) { *out << broken.name; }

const std::vector<BrokenRun>& broken_runs() {
  static const std::vector<BrokenRun> cases{
      {"ATaskInTheMiddleOfAState",
       [](FakeMaster& m) {
         m.assign();
         m.send(wire::Load{0, {0, 1}});
         m.send(wire::Update{});
       }},
      {"StageIndexBeyondTheLimit",
       [](FakeMaster& m) {
         m.send(wire::Load{1U << 30, {0, 1}});
       }},
      {"ByeInTheMiddleOfAState",
       [](FakeMaster& m) {
         m.assign();
         m.send(wire::Load{0, {0, 1}});
         m.send(wire::Bye{"interrupted"}, Channel::control);
       }},
      {"ByeInTheMiddleOfAStep",
       [](FakeMaster& m) {
         m.assign();
         m.send(wire::Step{1, {.training = true}});
         m.send_piece({.step = 1}, kImages / 2);
         m.send(wire::Bye{"interrupted"}, Channel::control);
       }},
      {"NoMessage",
       [](FakeMaster& m) {
         // A message other than a Piece has no payload.
         m.send(wire::Envelope{wire::Ping{}, wire::Payload(3)});
       }},
  };
  return cases;
}

class BrokenRuns : public testing::TestWithParam<BrokenRun> {};

TEST_P(BrokenRuns, AreLeftForTheNext) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  GetParam().spoil(master);
  EXPECT_TRUE(master.welcome());
  EXPECT_FALSE(slave.over());
}

INSTANTIATE_TEST_SUITE_P(Table, BrokenRuns, testing::ValuesIn(broken_runs()),
                         [](const auto& each) { return each.param.name; });

TEST(Slave, OutlivesAMasterThatVanishes) {
  auto first = std::make_unique<FakeMaster>();
  const std::string endpoint = first->endpoint();
  const SlaveThread slave(endpoint);
  ASSERT_TRUE(first->welcome());
  first->assign();
  first->go_away();
  FakeMaster second(endpoint);
  EXPECT_TRUE(second.welcome());
  second.send(wire::Step{1, {}});
  EXPECT_THAT(second.failure(), HasSubstr("there is no plan")) << "nothing is left of the run before";
}

// ---- other slaves that err: the master is told who -----------------------------------------------------------------

struct BadPeer {
  std::string name;
  wire::Envelope (*says)();
  std::string told;
};

void PrintTo(const BadPeer& bad, std::ostream* out) { *out << bad.name; }

class BadPeers : public testing::TestWithParam<BadPeer> {};

TEST_P(BadPeers, AreNamed) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  wire::ClientLink other(master.endpoint());
  wire::Assign assign = assign_of();
  assign.plan = proportional_plan(assign.trunk, kBatch, {"worker", "other"}, {1.0, 1.0});
  assign.peers = {fmt::format(":{}", master.peer_port()), fmt::format("127.0.0.1:{}", other.peer_port())};
  master.send(assign);
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  other.meet("token", 1, {{0, "worker", assign.peers[0]}});
  ASSERT_TRUE(other.unreached(Clock::now() + 5s).empty());
  other.send_to_peer(0, GetParam().says(), Clock::now() + 5s);
  EXPECT_THAT(master.failure(), HasSubstr("slave other broke the protocol: " + GetParam().told));
}

INSTANTIATE_TEST_SUITE_P(Table, BadPeers,
                         testing::Values(BadPeer{"NoPiece",
                                                 [] {
                                                   return wire::Envelope{wire::Update{}, {}};
                                                 },
                                                 "Update where a Piece was due"},
                                         BadPeer{"OfALaterStep",
                                                 [] {
                                                   return wire::Envelope{wire::Piece{.step = 2}, wire::Payload(4)};
                                                 },
                                                 "a Piece of step 2 in step 0"},
                                         BadPeer{
                                             "FarTooMuch",
                                             [] {
                                               return wire::Envelope{wire::Piece{.step = 1}, wire::Payload(1 << 20)};
                                             },
                                             "more Pieces of the next step than there are"}),
                         [](const auto& each) { return each.param.name; });

/// Bytes that are no message at all, from whatever listens at the address.
TEST(Slave, SurvivesGarbageOnItsControlConnection) {
  auto context = std::make_unique<zmq::context_t>();
  auto garbage = std::make_unique<zmq::socket_t>(*context, zmq::socket_type::router);
  garbage->set(zmq::sockopt::linger, 200);
  garbage->bind("tcp://127.0.0.1:*");
  const std::string endpoint = garbage->get(zmq::sockopt::last_endpoint);
  const SlaveThread slave(endpoint);
  garbage->set(zmq::sockopt::rcvtimeo, 10000);
  zmq::message_t id;
  ASSERT_TRUE(garbage->recv(id));
  zmq::message_t hello;
  ASSERT_TRUE(garbage->recv(hello));
  garbage->send(id, zmq::send_flags::sndmore);
  garbage->send(zmq::str_buffer("GET / HTTP/1.1"), zmq::send_flags::none);
  zmq::message_t next;
  ASSERT_TRUE(garbage->recv(next)) << "it says hello again, on a new connection";
  garbage.reset();
  context.reset();  // waits until the port is free
  FakeMaster master(endpoint);
  EXPECT_TRUE(master.welcome());
  EXPECT_FALSE(slave.over());
}

}  // namespace
}  // namespace convoy
