// Tests a slave with masters that make mistakes, break the protocol, or vanish. The slave must report the fault and
// serve the next run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <zmq.hpp>

#include "tests/support/fake_master.hpp"
#include "wire/stream.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

// ---- masters that break off a run ----------------------------------------------------------------------------------

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
         m.send(wire::Load{0, {0, 1}, {{}}});
         m.send(training_step(1));
       }},
      {"StageIndexBeyondTheLimit",
       [](FakeMaster& m) {
         m.send(wire::Load{1U << 30, {0, 1}, {{}}});
       }},
      {"ByeInTheMiddleOfAState",
       [](FakeMaster& m) {
         m.assign();
         m.send(wire::Load{0, {0, 1}, {{}}});
         m.send(wire::Bye{"interrupted"}, Channel::control);
       }},
      {"ByeInTheMiddleOfAStep",
       [](FakeMaster& m) {
         m.assign();
         m.send(training_step(1));
         m.send_piece({.step = 1, .task = images_task()}, kImages / 2);
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
  second.send(wire::Step{1, {.pass = Pass{}}});
  EXPECT_THAT(second.failure(), HasSubstr("this slave has no plan"))
      << "the slave must have dropped the plan of the previous run";
}

/// The master gives up a step or a Load, as it does when another slave was lost.
TEST(Slave, TakesAnotherPlanInTheMiddleOfWhatEverItDoes) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.assign();
  master.send(training_step(1));
  master.send(assign_of());
  while (!std::holds_alternative<wire::Done>(master.next())) {
  }
  master.send(wire::Load{0, {0, 4}, {{}}});
  ASSERT_TRUE(std::holds_alternative<wire::Wanted>(master.next()));
  master.send_piece({.step = 0, .task = 0, .first = 0}, 4);
  master.send(assign_of());
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  master.send(step_of(1, {}));
  master.send_piece({.step = 1, .task = 0, .first = 0}, kImages);
  EXPECT_TRUE(std::holds_alternative<wire::Piece>(master.next())) << "the slave must compute the step of the new plan";
}

// ---- states that move from slave to slave --------------------------------------------------------------------------

/// Each filter has 9 weights and 1 bias, with a velocity for each.
constexpr std::size_t kOfTwoFilters = 2 * (9 + 9 + 1 + 1);

TEST(MovingStates, GoToAnotherSlave) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  wire::TcpClientLink other(master.endpoint());
  master.assign();
  other.meet("halves", 1, {});
  master.send(halves(master, other, {{0, {2, 2}, 0, 1}}));
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  master.send(wire::Move{});
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  std::size_t values = 0;
  while (values < kOfTwoFilters) {
    const auto from = other.receive(Clock::now() + 5s);
    ASSERT_TRUE(from.has_value());
    EXPECT_EQ(std::get<wire::Piece>(from->envelope.message), (wire::Piece{.step = 0, .task = 0, .first = values}));
    values += from->envelope.payload.floats().size();
  }
  EXPECT_EQ(values, kOfTwoFilters);
}

TEST(MovingStates, ComeFromAnotherSlave) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  wire::TcpClientLink other(master.endpoint());
  master.send(halves(master, other, {{0, {0, 2}, 1, 0}}));
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  other.meet("halves", 1, {{0, "worker", fmt::format("127.0.0.1:{}", master.peer_port())}});
  ASSERT_TRUE(other.unreached(Clock::now() + 5s).empty());
  ShardState state = zero_state(stage(), 2);
  float next = 0.0F;
  for (const std::span<float> values : wire::values_of(state)) {
    for (float& value : values) value = ++next;
  }
  wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(std::as_const(state)),
                    [&](const wire::Envelope& piece) { other.send_to_peer(0, Lane::prompt, piece); });
  master.send(wire::Move{});
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  master.send(wire::Snapshot{0, {0, 2}});
  next = 0.0F;
  while (next < static_cast<float>(kOfTwoFilters)) {
    const wire::Envelope envelope = master.next_envelope();
    ASSERT_TRUE(std::holds_alternative<wire::Piece>(envelope.message));
    for (const float value : envelope.payload.floats()) EXPECT_EQ(value, ++next);
  }
}

TEST(MovingStates, MustBeInAShardThere) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  wire::TcpClientLink other(master.endpoint());
  other.meet("halves", 1, {});
  master.send(halves(master, other, {{0, {2, 2}, 0, 1}}));
  EXPECT_THAT(master.failure(),
              HasSubstr("filters 2 to 3 of stage 0, which node 1 takes over, are in a shard of this slave"));
}

/// A master that was busy finds several Hellos, and answers each.
TEST(Sessions, IgnoreFurtherWelcomes) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.send(wire::Welcome{wire::kProtocolVersion, "run"}, Channel::control);
  master.send(wire::Probe{0});
  EXPECT_TRUE(std::holds_alternative<wire::Probed>(master.next()));
}

// ---- gradients that a server collects ------------------------------------------------------------------------------

/// The first task by which the master sends the slave values of a stage.
std::uint32_t task_from_master(const wire::Assign& assign, int stage) {
  const TaskGraph graph = make_task_graph(assign.plan, assign.trunk);
  const auto task = std::ranges::find_if(graph.tasks, [&](const Task& each) {
    return each.kind == TaskKind::send && each.node == graph.master && each.stage == stage;
  });
  return static_cast<std::uint32_t>(task - graph.tasks.begin());
}

/// They are asked for while the slave has nothing of the step, and those of the last stage leave before the step ends.
TEST(Gradients, LeaveBeforeTheStepEnds) {
  constexpr std::size_t kWeights = 2 * 4 * 9;  // of the second stage; its biases follow in a Piece of their own
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  wire::Assign assign = assign_of();
  Stage second = stage();
  second.name = "conv2";
  second.channels = 4;
  second.conv.filters = 2;
  assign.trunk.push_back(second);
  assign.plan = proportional_plan(assign.trunk, static_cast<int>(kBatch), {"worker"}, {1.0});
  master.send(assign);
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  master.send(training_step(1));
  master.send(wire::Snapshot{1, {0, 2}, true});
  master.send(wire::Snapshot{0, {0, 4}, true});
  master.send_piece({.step = 1, .task = task_from_master(assign, Source::kImages)}, kImages);
  const wire::Message maps = master.next();
  ASSERT_TRUE(std::holds_alternative<wire::Piece>(maps));
  EXPECT_EQ(std::get<wire::Piece>(maps).step, 1U);
  master.send_piece({.step = 1, .task = task_from_master(assign, 1)}, kImages * 2 * sizeof(float));
  const wire::Envelope early = master.next_envelope();
  ASSERT_TRUE(std::holds_alternative<wire::Piece>(early.message)) << wire::name_of(early.message);
  EXPECT_EQ(std::get<wire::Piece>(early.message), (wire::Piece{.step = 0, .task = 1, .first = 0}));
  EXPECT_EQ(early.payload.floats().size(), kWeights) << "without moments";
  EXPECT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  for (const wire::Piece& due :
       {wire::Piece{.step = 0, .task = 1, .first = kWeights}, wire::Piece{.step = 0, .task = 0, .first = 0},
        wire::Piece{.step = 0, .task = 0, .first = 4 * 9}}) {
    const wire::Message came = master.next();
    ASSERT_TRUE(std::holds_alternative<wire::Piece>(came)) << wire::name_of(came);
    EXPECT_EQ(std::get<wire::Piece>(came), due);
  }
}

// ---- other slaves that break the protocol --------------------------------------------------------------------------

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
  wire::TcpClientLink other(master.endpoint());
  wire::Assign assign = assign_of();
  assign.plan = proportional_plan(assign.trunk, kBatch, {"worker", "other"}, {1.0, 1.0});
  assign.peers = {fmt::format(":{}", master.peer_port()), fmt::format("127.0.0.1:{}", other.peer_port())};
  master.send(assign);
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  other.meet("token", 1, {{0, "worker", assign.peers[0]}});
  ASSERT_TRUE(other.unreached(Clock::now() + 5s).empty());
  other.send_to_peer(0, Lane::prompt, GetParam().says());
  const wire::Message told = master.next();
  const auto* unreached = std::get_if<wire::Unreached>(&told);
  ASSERT_NE(unreached, nullptr) << wire::name_of(told);
  EXPECT_THAT(unreached->peers, testing::ElementsAre(HasSubstr("other (which broke the protocol: " + GetParam().told)));
}

INSTANTIATE_TEST_SUITE_P(Table, BadPeers,
                         testing::Values(BadPeer{"Bye",
                                                 [] {
                                                   return wire::Envelope{wire::Bye{"go home"}, {}};
                                                 },
                                                 "Bye came where a Piece was due"},
                                         BadPeer{"NoPiece",
                                                 [] {
                                                   return wire::Envelope{wire::Credit{1}, {}};
                                                 },
                                                 "Credit came where a Piece was due"},
                                         BadPeer{"OfALaterStep",
                                                 [] {
                                                   return wire::Envelope{wire::Piece{.step = 2}, wire::Payload(4)};
                                                 },
                                                 "a Piece of step 2 came in step 0"},
                                         BadPeer{"OfAState",
                                                 [] {
                                                   return wire::Envelope{wire::Piece{.step = 0}, wire::Payload(4)};
                                                 },
                                                 "a Piece has values of a state that does not move"},
                                         BadPeer{
                                             "FarTooMuch",
                                             [] {
                                               return wire::Envelope{wire::Piece{.step = 1}, wire::Payload(1 << 20)};
                                             },
                                             "more Pieces of the next step came than the plan sends"}),
                         [](const auto& each) { return each.param.name; });

/// A program other than a master listens at the address and sends bytes that are not a message.
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
  ASSERT_TRUE(garbage->recv(next)) << "the slave must say Hello again on a new connection";
  garbage.reset();
  context.reset();  // frees the port
  FakeMaster master(endpoint);
  EXPECT_TRUE(master.welcome());
  EXPECT_FALSE(slave.over());
}

}  // namespace
}  // namespace convoy
