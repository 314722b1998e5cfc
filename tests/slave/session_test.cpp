// A slave under masters that err, break the protocol, or go away: it says so and serves the next run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <zmq.hpp>

#include "devices/registry.hpp"
#include "slave/serve.hpp"
#include "wire/stream.hpp"

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

wire::Hold hold_of(const Stage& stage) {
  return {.stage_index = 0, .stage = stage, .filters = {0, 4}, .batch = kBatch, .input_gradient = true};
}

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
      if (std::holds_alternative<wire::Hello>(from->envelope.message) && from->peer != peer_) {
        fresh_ = from->peer;
        link_->send(fresh_, Channel::control, {wire::Welcome{1, "run"}, {}}, Clock::now() + 5s);
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
  void send(const std::vector<wire::Envelope>& envelopes) {
    for (const wire::Envelope& envelope : envelopes) send(envelope);
  }
  /// The next message on the data connection.
  wire::Message next() {
    const auto until = Clock::now() + 20s;
    while (Clock::now() < until) {
      const auto from = link_->receive(until);
      if (from && from->channel == Channel::data && from->peer == peer_) return from->envelope.message;
    }
    return wire::Failed{"nothing came"};
  }
  std::string failure() {
    const wire::Message message = next();
    const auto* failed = std::get_if<wire::Failed>(&message);
    return failed == nullptr ? wire::name_of(message) : failed->reason;
  }
  void go_away() { link_.reset(); }

 private:
  std::unique_ptr<wire::ServerLink> link_;
  std::string peer_;
  std::string fresh_;
};

// ---- tasks that cannot be done: answered with Failed ---------------------------------------------------------------

struct BadTask {
  std::string name;
  void (*give)(FakeMaster& master);
  std::string says;
};

void PrintTo(const BadTask& bad, std::ostream* out) { *out << bad.name; }

const std::vector<BadTask>& bad_tasks() {
  static const std::vector<BadTask> cases{
      {"NoShard",
       [](FakeMaster& m) {
         m.send(wire::Forward{3, {}});
       },
       "there is no shard of stage 3 here"},
      {"NoShardToLoad", [](FakeMaster& m) { m.send(wire::Load{0}); }, "there is no shard of stage 0"},
      {"NoShardToSnapshot", [](FakeMaster& m) { m.send(wire::Snapshot{1}); }, "there is no shard of stage 1"},
      {"NotATask", [](FakeMaster& m) { m.send(wire::Done{}); }, "a master does not send Done"},
      {"APieceByItself",
       [](FakeMaster& m) {
         m.send(wire::make_pieces(Tensor({1, 1, 1, 1}, 0.0F)));
       },
       "a master does not send Piece"},
      {"TooLargeToHold",
       [](FakeMaster& m) {
         wire::Hold hold = hold_of(stage());
         hold.batch = 4096;
         m.send(hold);
       },
       "raise --memory"},
      {"TooLargeToTime", [](FakeMaster& m) { m.send(wire::Calibrate{.stage = stage(), .filters = 4, .batch = 4096}); },
       "raise --memory"},
      {"PieceOfOtherExtents",
       [](FakeMaster& m) {
         m.send(hold_of(stage()));
         m.next();
         m.send(wire::Forward{0, {.training = true}});
         m.send(wire::make_pieces(Tensor({1, 9, 6, 6}, 0.0F)));
       },
       "Piece"},
      {"PieceTwice",
       [](FakeMaster& m) {
         m.send(hold_of(stage()));
         m.next();
         m.send(wire::Forward{0, {.training = true}});
         const auto half = wire::make_pieces(Tensor({1, 1, 6, 6}, 0.0F));
         m.send(half);
         m.send(half);
       },
       "Piece"},
  };
  return cases;
}

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

INSTANTIATE_TEST_SUITE_P(Table, BadTasks, testing::ValuesIn(bad_tasks()),
                         [](const auto& each) { return each.param.name; });

// ---- masters that break off: the slave comes back ------------------------------------------------------------------

struct BrokenRun {
  std::string name;
  void (*spoil)(FakeMaster& master);
};

void PrintTo(const BrokenRun& broken, std::ostream* out) { *out << broken.name; }

const std::vector<BrokenRun>& broken_runs() {
  static const std::vector<BrokenRun> cases{
      {"ATaskInTheMiddleOfATensor",
       [](FakeMaster& m) {
         m.send(hold_of(stage()));
         m.next();
         m.send(wire::Forward{0, {}});
         m.send(wire::Update{});
       }},
      {"StageIndexBeyondTheLimit",
       [](FakeMaster& m) {
         wire::Hold hold = hold_of(stage());
         hold.stage_index = 1U << 30;
         m.send(hold);
       }},
      {"ByeInTheMiddleOfATensor",
       [](FakeMaster& m) {
         m.send(hold_of(stage()));
         m.next();
         m.send(wire::Load{0});
         m.send(wire::Bye{"interrupted"}, Channel::control);
       }},
      {"NoMessage",
       [](FakeMaster& m) {
         // A Piece whose payload is no multiple of four bytes cannot be read as one.
         m.send(wire::Envelope{wire::Piece{.samples = 1, .channels = 1}, wire::Payload(3)});
         m.send(wire::Bye{"enough"}, Channel::control);
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
  first->send(hold_of(stage()));
  first->next();
  first->go_away();
  FakeMaster second(endpoint);
  EXPECT_TRUE(second.welcome());
  second.send(wire::Forward{0, {}});
  EXPECT_THAT(second.failure(), HasSubstr("there is no shard")) << "nothing is left of the run before";
}

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
