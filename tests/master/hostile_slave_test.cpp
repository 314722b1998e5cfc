// A master among slaves that fail, leave, hang, or break the protocol: an error that names the slave, never a hang.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "master/cluster_trunk.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using wire::Channel;
using wire::Clock;

constexpr int kBatch = 2;

std::vector<Stage> two_stages() {
  const Convolution conv{.filters = 4, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
  return {{.name = "conv1", .channels = 1, .height = 6, .width = 6, .conv = conv, .after = {Activation::relu}},
          {.name = "conv2", .channels = 4, .height = 6, .width = 6, .conv = conv, .after = {Activation::relu}}};
}

/// Answers every task at once, with zeros, until the message that it is to misbehave at.
class FakeSlave {
 public:
  using Misdeed = void (*)(FakeSlave& slave);

  FakeSlave(const std::string& endpoint, std::string at, Misdeed misdeed)
      : link_(std::make_unique<wire::ClientLink>(endpoint)), at_(std::move(at)), misdeed_(misdeed) {}

  /// Until told to stop, or the master ends the run.
  void run(const std::atomic<bool>& stop) {
    try {
      send(wire::Hello{.version = wire::kProtocolVersion, .name = "evil", .device = "none", .threads = 1},
           Channel::control);
      while (!stop && link_ != nullptr) {
        const auto from = link_->receive(Clock::now() + 50ms);
        if (!from) continue;
        if (std::holds_alternative<wire::Welcome>(from->envelope.message)) {
          send(wire::Attach{"evil"});
        } else if (wire::name_of(from->envelope.message) == at_) {
          misdeed_(*this);
        } else {
          std::visit([this](const auto& message) { on(message); }, from->envelope.message);
        }
      }
    } catch (const PeerLost&) {
      // The master has ended the run.
    }
  }

  void send(const wire::Message& message, Channel channel = Channel::data) {
    link_->send(channel, {message, {}}, Clock::now() + 5s);
  }
  void send_zeros(const Shape& shape) {
    for (const wire::Envelope& piece : wire::make_pieces(Tensor(shape, 0.0F))) send_piece(piece);
  }
  void send_piece(const wire::Envelope& piece) { link_->send(Channel::data, piece, Clock::now() + 5s); }
  void vanish() { link_.reset(); }

 private:
  template <class T>
  void on(const T&) {}  // Ping, Piece, Credit, Bye
  void on(const wire::Hold& hold) {
    held_[hold.stage_index] = hold;
    send(wire::Done{});
  }
  void on(const wire::Load&) { send(wire::Done{}); }
  void on(const wire::Update&) { send(wire::Done{}); }
  void on(const wire::Forward& task) {
    const wire::Hold& hold = held_.at(task.stage_index);
    send_zeros(output_shape(hold.stage, kBatch, hold.filters.count));
    send(wire::Done{});
  }
  void on(const wire::Backward& task) {
    const wire::Hold& hold = held_.at(task.stage_index);
    if (hold.input_gradient) send_zeros(input_shape(hold.stage, kBatch));
    send(wire::Done{});
  }
  void on(const wire::Snapshot& task) {
    const wire::Hold& hold = held_.at(task.stage_index);
    for (const wire::Envelope& piece : wire::make_state_pieces(zero_state(hold.stage, hold.filters.count))) {
      send_piece(piece);
    }
    send(wire::Done{});
  }

  std::unique_ptr<wire::ClientLink> link_;
  std::string at_;
  Misdeed misdeed_;
  std::map<std::uint32_t, wire::Hold> held_;
};

wire::Envelope piece(wire::Piece extents, std::size_t floats) {
  wire::Payload payload(floats * sizeof(float));
  std::ranges::fill(payload.floats(), 0.0F);
  return {extents, payload};
}

struct HostileCase {
  std::string name;
  std::string at;  ///< the message that the misdeed answers
  FakeSlave::Misdeed misdeed;
  std::string says;
};

void PrintTo(const HostileCase& each, std::ostream* out) { *out << each.name; }

const std::vector<HostileCase>& hostile_cases() {
  static const std::vector<HostileCase> cases{
      {"FailsToHold", "Hold", [](FakeSlave& s) { s.send(wire::Failed{"out of memory"}); }, "out of memory"},
      {"PieceForHold", "Hold",
       [](FakeSlave& s) {
         s.send_zeros({1, 1, 1, 1});
       },
       "an unasked Piece"},
      {"OtherAnswer", "Hold", [](FakeSlave& s) { s.send(wire::Calibrated{1.0}); }, "Calibrated where Piece or Done"},
      {"DoneTwice", "Update",
       [](FakeSlave& s) {
         s.send(wire::Done{});
         s.send(wire::Done{});
       },
       "broke the protocol"},
      {"Leaves", "Load", [](FakeSlave& s) { s.send(wire::Bye{"unplugged"}, Channel::control); }, "unplugged"},
      {"TaskOnControl", "Load", [](FakeSlave& s) { s.send(wire::Done{}, Channel::control); },
       "Done on its control connection"},
      {"Vanishes", "Forward", [](FakeSlave& s) { s.vanish(); }, "is gone"},
      {"VanishesWhileHolding", "Hold", [](FakeSlave& s) { s.vanish(); }, "is gone"},
      {"Hangs", "Forward", [](FakeSlave&) {}, "hangs: no answer for"},
      {"HangsInBackward", "Backward", [](FakeSlave&) {}, "hangs: no answer for"},
      {"MapsOfOtherFilters", "Forward",
       [](FakeSlave& s) { s.send_piece(piece({.samples = 2, .channel = 1, .channels = 4}, 288)); },
       "a Piece outside its filters"},
      {"ChannelsThatWrapAround", "Forward",
       [](FakeSlave& s) { s.send_piece(piece({.samples = 2, .channel = 0xFFFFFFFF, .channels = 2}, 144)); },
       "broke the protocol: channel 4294967295"},
      {"MapsTwice", "Forward",
       [](FakeSlave& s) {
         s.send_zeros({kBatch, 4, 6, 6});
         s.send_zeros({kBatch, 4, 6, 6});
       },
       "broke the protocol"},
      {"MapsCutShort", "Forward", [](FakeSlave& s) { s.send_piece(piece({.samples = 2, .channels = 4}, 12)); },
       "broke the protocol"},
      {"MapsIncomplete", "Forward",
       [](FakeSlave& s) {
         s.send_piece(piece({.samples = 1, .channels = 4}, 144));
         s.send(wire::Done{});
       },
       "Done before the end of its maps"},
      {"BeyondItsCredit", "Forward",
       [](FakeSlave& s) {
         for (std::uint32_t c = 0; c < 2; ++c) {
           for (std::uint32_t n = 0; n < 4; ++n)
             s.send_piece(piece({.sample = n, .samples = 1, .channel = c, .channels = 1}, 36));
         }
       },
       "broke the protocol"},
      {"GradientNotSent", "Backward", [](FakeSlave& s) { s.send(wire::Done{}); },
       "Done before the end of its input gradient"},
      {"GradientCutShort", "Backward", [](FakeSlave& s) { s.send_piece(piece({.samples = 2, .channels = 4}, 8)); },
       "has 32 bytes, expected 1152"},
      {"GradientOfOtherExtents", "Backward",
       [](FakeSlave& s) { s.send_piece(piece({.samples = 1, .channels = 4}, 144)); }, "covers other samples"},
      {"SnapshotIncomplete", "Snapshot", [](FakeSlave& s) { s.send(wire::Done{}); }, "its snapshot is incomplete"},
      {"SnapshotOfOtherShape", "Snapshot",
       [](FakeSlave& s) { s.send_piece(piece({.part = 0, .samples = 9, .channels = 1}, 81)); }, "broke the protocol"},
  };
  return cases;
}

/// What goes wrong in one step of training with the slave at the roster.
std::string error_of_a_step(Roster& roster, NumberType wire = NumberType::fp32) {
  const std::vector<Stage> stages = two_stages();
  Plan plan = proportional_plan(stages, kBatch, {"evil"}, {1.0});
  plan.wire = wire;
  try {
    ClusterTrunk trunk(stages, plan, roster, nullptr, 1s);
    std::vector<ShardState> states;
    for (const Stage& stage : stages) states.push_back(zero_state(stage, stage.conv.filters));
    trunk.load(states);
    trunk.forward(Tensor(input_shape(stages[0], kBatch), 1.0F), {.training = true});
    trunk.backward(Tensor(output_shape(stages[1], kBatch, 4), 1.0F));
    trunk.update({});
    trunk.snapshot();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class HostileSlave : public testing::TestWithParam<HostileCase> {};

TEST_P(HostileSlave, IsNamed) {
  Roster roster("tcp://127.0.0.1:*", "test");
  FakeSlave slave(roster.endpoint(), GetParam().at, GetParam().misdeed);
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const std::atomic<bool> never{false};
  roster.gather(1, never, [] {});
  const std::string error = error_of_a_step(roster);
  stop = true;
  thread.join();
  EXPECT_THAT(error, HasSubstr("evil"));
  EXPECT_THAT(error, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Table, HostileSlave, testing::ValuesIn(hostile_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(HostileSlave, TheFakeByItselfIsWellBehavedButKnowsFloatsAlone) {
  Roster roster("tcp://127.0.0.1:*", "test");
  FakeSlave slave(roster.endpoint(), "nothing", [](FakeSlave&) {});
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const std::atomic<bool> never{false};
  roster.gather(1, never, [] {});
  EXPECT_THAT(error_of_a_step(roster, NumberType::bf16),
              AllOf(HasSubstr("evil"), HasSubstr("cannot send and receive bf16"), HasSubstr("--wire")));
  EXPECT_EQ(error_of_a_step(roster), "");
  stop = true;
  thread.join();
}

// ---- joining -------------------------------------------------------------------------------------------------------

/// Says hello and returns the master's refusal, or "welcome".
std::string answer_to(wire::ClientLink& link, const wire::Hello& hello) {
  link.send(Channel::control, {hello, {}}, Clock::now() + 5s);
  const auto until = Clock::now() + 5s;
  while (Clock::now() < until) {
    const auto from = link.receive(until);
    if (!from) continue;
    if (const auto* refused = std::get_if<wire::Refused>(&from->envelope.message)) return refused->reason;
    if (std::holds_alternative<wire::Welcome>(from->envelope.message)) return "welcome";
  }
  return "no answer";
}

TEST(Joining, WrongVersionAndTakenNamesAreRefusedWithTheMend) {
  Roster roster("tcp://127.0.0.1:*", "test");
  std::atomic<bool> stop{false};
  std::thread master([&] { roster.gather(5, stop, [] {}); });
  wire::ClientLink one(roster.endpoint());
  wire::ClientLink two(roster.endpoint());
  const std::uint32_t version = wire::kProtocolVersion;
  EXPECT_THAT(answer_to(one, {.version = version + 1, .name = "a"}), HasSubstr("run the same release of Convoy"));
  EXPECT_EQ(answer_to(one, {.version = version, .name = "a"}), "welcome");
  EXPECT_EQ(answer_to(one, {.version = version, .name = "a"}), "welcome") << "a repeated hello is no second slave";
  EXPECT_THAT(answer_to(two, {.version = version, .name = "a"}), HasSubstr("another --name"));
  EXPECT_THAT(answer_to(two, {.version = version, .name = "master"}), HasSubstr("another --name"));
  EXPECT_EQ(answer_to(two, {.version = version, .name = "b"}), "welcome");
  stop = true;
  master.join();
}

}  // namespace
}  // namespace convoy
