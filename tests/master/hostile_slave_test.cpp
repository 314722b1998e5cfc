// Tests a master with slaves that fail, leave, hang, or break the protocol. Each case must end in an error that names
// the slave, and never in a hang.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "devices/registry.hpp"
#include "master/cluster/cluster_trunk.hpp"
#include "tests/support/fake_slave.hpp"
#include "tests/support/images.hpp"
#include "tests/support/slave_threads.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using wire::Channel;
using wire::Clock;

constexpr int kHostileBatch = 2;

std::vector<Stage> two_stages() {
  const Convolution conv{.filters = 4, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
  return {{.name = "conv1", .channels = 1, .height = 6, .width = 6, .conv = conv, .after = {Activation::relu}},
          {.name = "conv2", .channels = 4, .height = 6, .width = 6, .conv = conv, .after = {Activation::relu}}};
}

/// The first task that sends this cargo from the slave, in a plan in which the slave holds all filters.
std::uint32_t send_of(Cargo cargo) {
  const TaskGraph graph =
      make_task_graph(proportional_plan(two_stages(), kHostileBatch, {"evil"}, {1.0}), two_stages());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    if (task.kind == TaskKind::send && task.node == 0 && task.cargo == cargo) return static_cast<std::uint32_t>(i);
  }
  return 0;
}

/// Sends signs of life for 15 s, or until the master has had enough.
void show_life(FakeSlave& slave, wire::Ping (*ping)(int round)) {
  slave.hang();
  for (int round = 0; round < 75; ++round) {
    std::this_thread::sleep_for(200ms);
    slave.send(ping(round));
  }
}

struct HostileCase {
  std::string name;
  std::string at;  ///< the message that the misdeed answers
  FakeSlave::Misdeed misdeed;
  std::string says;
  std::chrono::seconds patience{1};  ///< of the master with a slave that makes no progress
  bool clips = false;                ///< whether steps need the squares of the gradient
};

void PrintTo(const HostileCase& each, std::ostream* out) { *out << each.name; }

/// The bytes of all maps of a stage in a batch; both stages have the same number.
constexpr std::size_t kMaps = sizeof(float) * kHostileBatch * 4 * 6 * 6;

/// Slaves that send wrong messages, or none.
std::vector<HostileCase> bad_manners() {
  return {
      {"FailsToHold", "Assign", [](FakeSlave& s) { s.send(wire::Failed{"out of memory"}); }, "out of memory"},
      {"PieceForAssign", "Assign", [](FakeSlave& s) { s.send_piece({}, 4); },
       "broke the protocol: a Piece of step 0 came"},
      {"OtherAnswer", "Assign", [](FakeSlave& s) { s.send(wire::Calibrated{1.0}); },
       "Calibrated came where Piece or Done"},
      {"SquaresOfNoStep", "Assign", [](FakeSlave& s) { s.send(wire::Squares{1.0}); },
       "broke the protocol: an unrequested Squares came"},
      {"SquaresOfAStepWithoutClipping", "Step", [](FakeSlave& s) { s.send(wire::Squares{1.0}); },
       "broke the protocol: an unrequested Squares came"},
      {"DoneTwice", "Step",
       [](FakeSlave& s) {
         s.send(wire::Done{});
         s.send(wire::Done{});
       },
       "broke the protocol: an unrequested Done came"},
      {"DoneWithoutSquares", "Step", [](FakeSlave& s) { s.send(wire::Done{}); },
       "broke the protocol: Done came where Squares was due", 1s, true},
      {"UnreachedLate", "Step",
       [](FakeSlave& s) {
         s.send(wire::Unreached{{"nobody"}});
         for (int i = 0; i < 80; ++i) {
           std::this_thread::sleep_for(100ms);
           s.send(wire::Ping{});
         }
         s.hang();
       },
       "an Unreached, although the plan has it send to no other slave"},
      {"UnreachedInsteadOfHolding", "Assign", [](FakeSlave& s) { s.send(wire::Unreached{{"nobody"}}); },
       "an Unreached, although the plan has it send to no other slave"},
      {"ShowsLifeButDoesNothing", "Step", [](FakeSlave& s) { show_life(s, [](int) { return wire::Ping{.left = 9}; }); },
       "hangs: it has made no progress for 1 s"},
      {"SaysThatItWaitsThoughNobodyKeepsItWaiting", "Step",
       [](FakeSlave& s) { show_life(s, [](int) { return wire::Ping{.left = 9, .waiting = true}; }); },
       "holds the others up: it did not finish its part within 10 s"},
      {"HasEverFewerTasksLeft", "Step",
       [](FakeSlave& s) {
         show_life(s, [](int round) { return wire::Ping{.left = static_cast<std::uint32_t>(1000 - round)}; });
       },
       "holds the others up: it did not finish its part within 10 s"},
      {"Leaves", "Load",
       [](FakeSlave& s) {
         s.send(wire::Bye{"unplugged"}, Channel::control);
         s.hang();
       },
       "unplugged"},
      {"TaskOnControl", "Load",
       [](FakeSlave& s) {
         s.send(wire::Done{}, Channel::control);
         s.hang();
       },
       "Done came on its control connection"},
      {"WantsABlockThatThereIsNot", "Load",
       [](FakeSlave& s) {
         s.send(wire::Wanted{0, {1}});
       },
       "a Wanted names block 1; the offer has blocks 0 to 0"},
      {"WantsAnotherStage", "Load",
       [](FakeSlave& s) {
         s.send(wire::Wanted{1, {}});
       },
       "an unrequested Wanted came"},
      {"WantsTwice", "Load",
       [](FakeSlave& s) {
         s.send(wire::Wanted{0, {}});
         s.send(wire::Wanted{0, {}});
       },
       "an unrequested Wanted came"},
      {"SaysThatItHasAStateWithoutAWord", "Load", [](FakeSlave& s) { s.send(wire::Done{}); },
       "Done came where Wanted was due"},
      {"WantsInAStep", "Step",
       [](FakeSlave& s) {
         s.send(wire::Wanted{0, {}});
       },
       "an unrequested Wanted came"},
      {"LacksImagesThatWereNotOffered", "Step",
       [](FakeSlave& s) {
         s.send(wire::Missing{1, 0, {0}});
       },
       "broke the protocol: an unrequested Missing came, of task 0 in step 1"},
      {"Vanishes", "Step", [](FakeSlave& s) { s.vanish(); }, "is gone"},
      {"VanishesWhileHolding", "Assign", [](FakeSlave& s) { s.vanish(); }, "is gone"},
      {"Hangs", "Step", [](FakeSlave& s) { s.hang(); }, "hangs: it has not answered for"},
  };
}

/// Slaves that send more than anybody can take. On a slow machine it takes the master a while to notice.
std::vector<HostileCase> floods() {
  return {
      {"Floods", "Step",
       [](FakeSlave& s) {
         for (int i = 0; i < 30000; ++i) s.send(wire::Ping{});
         s.hang();
       },
       "floods the master", 20s},
      {"FloodsOnControl", "Step",
       [](FakeSlave& s) {
         for (int i = 0; i < 30000; ++i) s.send(wire::Hello{.name = "evil"}, Channel::control);
         s.hang();
       },
       "floods the master", 20s},
  };
}

/// Slaves that send Pieces other than those that are due.
std::vector<HostileCase> bad_pieces() {
  static const std::uint32_t maps = send_of(Cargo::maps);
  static const std::uint32_t part = send_of(Cargo::part);
  return {
      {"OfAnotherStep", "Step", [](FakeSlave& s) { s.send_piece({.step = 2, .task = maps}, kMaps); },
       "a Piece of step 2 came in step 1"},
      {"OfNoTask", "Step", [](FakeSlave& s) { s.send_piece({.step = 1, .task = 1U << 29}, kMaps); },
       "no such task to send here"},
      {"OfATaskThatSendsNothing", "Step", [](FakeSlave& s) { s.send_piece({.step = 1, .task = part + 1}, kMaps); },
       "no such task to send here"},
      {"MapsTwice", "Step",
       [](FakeSlave& s) {
         s.send_piece({.step = 1, .task = maps}, kMaps);
         s.send_piece({.step = 1, .task = maps}, kMaps);
       },
       "no such task to send here"},
      {"TooManyMaps", "Step", [](FakeSlave& s) { s.send_piece({.step = 1, .task = maps}, kMaps + 4); },
       "1156 bytes from value 0 on"},
      {"MapsBeyondTheEnd", "Step",
       [](FakeSlave& s) { s.send_piece({.step = 1, .task = maps, .first = std::uint64_t{1} << 40}, kMaps); },
       "where values 0 to 288 are due"},
      {"HalfAValue", "Step", [](FakeSlave& s) { s.send_piece({.step = 1, .task = maps}, 6); },
       "6 bytes from value 0 on"},
      {"MapsIncomplete", "Step",
       [](FakeSlave& s) {
         s.send_piece({.step = 1, .task = maps}, kMaps / 2);
         s.send(wire::Done{});
         s.send(wire::Done{});
       },
       "an unrequested Done came"},
      {"BeyondItsCredit", "Step",
       [](FakeSlave& s) {
         // The Pieces are parts of the second stage's input gradient. The master adds none of them up before the loss
         // is known.
         for (std::uint64_t i = 0; i < 6; ++i) s.send_piece({.step = 1, .task = part, .first = i}, 4);
         s.send(wire::Calibrated{1.0});
       },
       "broke the protocol"},
      {"SnapshotIncomplete", "Snapshot", [](FakeSlave& s) { s.send(wire::Done{}); }, "an unrequested Done came"},
      {"SnapshotTooLong", "Snapshot", [](FakeSlave& s) { s.send_piece({}, 4 * 37); }, "at most 36 values are due"},
  };
}

const std::vector<HostileCase>& hostile_cases() {
  static const std::vector<HostileCase> cases = [] {
    std::vector<HostileCase> all = bad_manners();
    for (const auto& more : {floods(), bad_pieces()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return cases;
}

/// Training steps that a test does.
struct Steps {
  int count = 1;
  bool clips = false;  ///< whether they need the squares of the gradient
  NumberType wire = NumberType::fp32;
  Device* own = nullptr;  ///< the master's
  std::chrono::seconds patience{1};
};

/// The error of some training steps with the slave in the crew, and with the master's device where it has one; empty if
/// they succeed.
std::string error_of_steps(Crew& crew, const Steps& steps = {}) {
  const std::vector<Stage> stages = two_stages();
  Plan plan = steps.own == nullptr ? proportional_plan(stages, kHostileBatch, {"evil"}, {1.0})
                                   : proportional_plan(stages, kHostileBatch, {"evil", kMasterName}, {1.0, 1.0});
  plan.wire = steps.wire;
  try {
    ClusterTrunk trunk(stages, plan, crew, steps.own, steps.patience);
    std::vector<ShardState> states;
    for (const Stage& stage : stages) states.push_back(zero_state(stage, stage.conv.filters));
    trunk.load(states);
    for (int step = 0; step < steps.count; ++step) {
      trunk.forward(images_of_ones(input_shape(stages[0], kHostileBatch)), {.training = true, .squares = steps.clips});
      trunk.backward(Tensor(output_shape(stages[1], kHostileBatch, 4), 1.0F));
      if (steps.clips) trunk.gradient_squares();
      trunk.update({});
    }
    trunk.snapshot();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class HostileSlave : public testing::TestWithParam<HostileCase> {};

TEST_P(HostileSlave, IsNamed) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  FakeSlave slave(lobby.endpoint(), GetParam().at, GetParam().misdeed);
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const std::atomic<bool> never{false};
  crew.gather(1, never, [] {});
  const std::string error = error_of_steps(crew, {.clips = GetParam().clips, .patience = GetParam().patience});
  stop = true;
  thread.join();
  EXPECT_THAT(error, HasSubstr("evil"));
  EXPECT_THAT(error, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Table, HostileSlave, testing::ValuesIn(hostile_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(HostileSlave, SendsTheNextStepInAdvanceUpToABound) {
  static const std::uint32_t maps = send_of(Cargo::maps);
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  // Ten Pieces bring the states and the forward pass, and then the gradient comes. The master cannot begin the
  // second step before it has the slave's parts of the gradient between the stages.
  constexpr int kBefore = 10;
  FakeSlave slave(lobby.endpoint(), "Piece",
                  [](FakeSlave& s) {
                    std::this_thread::sleep_for(300ms);
                    for (int i = 0; i < 10; ++i) s.send_piece({.step = 2, .task = maps}, kMaps);
                  },
                  {.spared = kBefore});
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const std::atomic<bool> never{false};
  crew.gather(1, never, [] {});
  const auto device = make_device("reference", {.threads = 1});
  EXPECT_THAT(error_of_steps(crew, {.count = 2, .own = device.get()}),
              AllOf(HasSubstr("evil"), HasSubstr("more Pieces of the next step came than the plan sends")));
  stop = true;
  thread.join();
}

TEST(HostileSlave, TheFakeByItselfIsWellBehavedButKnowsFloatsAlone) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  FakeSlave slave(lobby.endpoint(), "nothing", [](FakeSlave&) {});
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const std::atomic<bool> never{false};
  crew.gather(1, never, [] {});
  EXPECT_THAT(error_of_steps(crew, {.wire = NumberType::bf16}),
              AllOf(HasSubstr("evil"), HasSubstr("cannot send and receive bf16"), HasSubstr("--wire")));
  EXPECT_EQ(error_of_steps(crew), "");
  stop = true;
  thread.join();
}

/// The fake slave does not announce a port for other slaves.
TEST(HostileSlave, ThatOthersCannotReachEndsARingButNotAStar) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  FakeSlave slave(lobby.endpoint(), "nothing", [](FakeSlave&) {});
  const SlaveThreads other(lobby.endpoint(), 1, {"reference"});
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const std::atomic<bool> never{false};
  crew.gather(2, never, [] {});
  Plan plan = proportional_plan(two_stages(), kHostileBatch, {"a", "evil"}, {1.0, 1.0});
  set_exchange(plan, Exchange::ring);
  EXPECT_THAT([&] { ClusterTrunk(two_stages(), plan, crew, nullptr, 10s); },
              testing::ThrowsMessage<PeerLost>(HasSubstr("slave a cannot connect to evil")));
  set_exchange(plan, Exchange::star);
  ClusterTrunk trunk(two_stages(), plan, crew, nullptr, 10s);
  EXPECT_EQ(trunk.forward(images_of_ones(input_shape(two_stages()[0], kHostileBatch)), {}).shape().c, 4);
  stop = true;
  thread.join();
}

/// What a slave says of its failure is shown to the master's user.
TEST(HostileSlave, HasItsWordsWrittenOut) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  FakeSlave slave(lobby.endpoint(), "Assign", [](FakeSlave& s) { s.send(wire::Failed{"broken\x1b]0;owned\a\xff"}); });
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const std::atomic<bool> never{false};
  crew.gather(1, never, [] {});
  const std::string error = error_of_steps(crew);
  stop = true;
  thread.join();
  EXPECT_THAT(error, HasSubstr("broken\\x1b]0;owned\\x07\\xff"));
}

}  // namespace
}  // namespace convoy
