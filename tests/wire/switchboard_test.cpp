// Tests the switchboard over real TCP: slaves reach the line that has their name, and no other; lines work at the same
// time in threads of their own; whoever is gone or unwelcome is told of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/wire/peers.hpp"
#include "wire/switchboard.hpp"
#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<Switchboard::Caller>& callers) {
  std::vector<std::string> names;
  for (const auto& each : callers) names.push_back(each.name);
  return names;
}

/// A slave that says who it is, and again until somebody answers.
class Slave {
 public:
  Slave(const Switchboard& board, const std::string& name)
      : name_(name), link_(std::make_unique<TcpClientLink>(board.endpoint())) {
    hello();
  }
  void hello() { link_->send(Channel::control, {Hello{.name = name_, .device = "test"}, {}}, in(1s)); }
  void attach() { link_->send(Channel::data, {Attach{name_}, {}}, in(1s)); }
  TcpClientLink& link() { return *link_; }
  void die() { link_.reset(); }

 private:
  std::string name_;
  std::unique_ptr<TcpClientLink> link_;
};

void await_callers(const Switchboard& board, std::size_t count) {
  for (int i = 0; i < 500 && board.waiting().size() != count; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(board.waiting().size(), count);
}

void await_presence(const Switchboard::Line& line) {
  for (int i = 0; i < 500 && !line.absent().empty(); ++i) std::this_thread::sleep_for(10ms);
  ASSERT_THAT(line.absent(), testing::IsEmpty());
}

/// The id of the next slave to say Hello on a link.
std::string heard_on(ServerLink& link) {
  const auto from = link.receive(in(5s));
  EXPECT_TRUE(from && std::holds_alternative<Hello>(from->envelope.message));
  return from ? from->peer : "";
}

TEST(Switchboards, GiveEachLineItsSlaves) {
  Switchboard board("tcp://127.0.0.1:*", {});
  Slave a(board, "a");
  Slave b(board, "b");
  Slave c(board, "c");
  await_callers(board, 3);
  EXPECT_THAT(names_of(board.waiting()), ElementsAre("a", "b", "c"));
  EXPECT_EQ(board.waiting()[0].device, "test");
  const auto of_a = board.line({"a"});
  const auto of_b = board.line({"b"});
  const auto link_a = of_a->listen("", {});
  const auto link_b = of_b->listen("", {});
  EXPECT_EQ(link_a->endpoint(), board.endpoint());
  for (Slave* each : {&b, &a, &c}) each->hello();
  const std::string id_a = heard_on(*link_a);
  const std::string id_b = heard_on(*link_b);
  EXPECT_NE(id_a, id_b);
  EXPECT_FALSE(link_a->receive(in(50ms)));
  EXPECT_THAT(names_of(board.waiting()), ElementsAre("c"));
  link_a->send(id_a, Channel::control, {Welcome{kProtocolVersion, "run a"}, {}}, in(1s));
  const auto welcome = a.link().receive(in(5s));
  ASSERT_TRUE(welcome);
  EXPECT_EQ(std::get<Welcome>(welcome->envelope.message).run, "run a");
  EXPECT_THAT(of_a->absent(), testing::ElementsAre("a"));
  a.attach();
  const auto attach = link_a->receive(in(5s));
  ASSERT_TRUE(attach);
  EXPECT_EQ(attach->peer, id_a);
  EXPECT_THAT(of_a->absent(), testing::IsEmpty());
  EXPECT_THAT(of_b->absent(), testing::Not(testing::IsEmpty()));
}

TEST(Switchboards, CarryTheMessagesOfSeveralRunsAtATime) {
  constexpr int kMessages = 300;
  Switchboard board("tcp://127.0.0.1:*", {});
  std::vector<std::thread> threads;
  for (const std::string name : {"a", "b", "c"}) {
    threads.emplace_back([&board, name] {  // the run
      const auto line = board.line({name});
      const auto link = line->listen("", {});
      const std::string id = heard_on(*link);
      // As a lobby does: before the slave attaches, its data connection may not stand yet.
      std::optional<ServerLink::From> from;
      do {
        from = link->receive(in(10s));
      } while (from && !std::holds_alternative<Attach>(from->envelope.message));
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        Payload payload(4096);
        payload.floats()[7] = static_cast<float>(i);
        link->send(id, Channel::data, {Piece{.step = 1, .task = i}, std::move(payload)}, in(1s));
        do {  // a slave says Hello and attaches until it hears something
          from = link->receive(in(10s));
        } while (from && !std::holds_alternative<Credit>(from->envelope.message));
        ASSERT_TRUE(from) << name << " " << i;
        EXPECT_EQ(std::get<Credit>(from->envelope.message).pieces, i + 1);
      }
    });
    threads.emplace_back([&board, name] {  // its slave
      Slave slave(board, name);
      for (std::uint32_t i = 0, silent = 0; i < kMessages && silent < 100;) {
        const auto from = slave.link().receive(in(300ms));
        if (!from) {
          ++silent;
          slave.attach();
          slave.hello();
          continue;
        }
        EXPECT_EQ(from->envelope.payload.floats()[7], static_cast<float>(i));
        slave.link().send(Channel::data, {Credit{i + 1}, {}}, in(1s));
        ++i;
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

TEST(Switchboards, SayGoodbyeForALineThatHasEnded) {
  Switchboard board("tcp://127.0.0.1:*", {});
  Slave a(board, "a");
  {
    const auto line = board.line({"a"});
    const auto link = line->listen("", {});
    a.hello();
    const std::string id = heard_on(*link);
    link->send(id, Channel::control, {Bye{"done"}, {}}, in(1s));
  }
  const auto bye = a.link().receive(in(5s));
  ASSERT_TRUE(bye);
  EXPECT_EQ(std::get<Bye>(bye->envelope.message).reason, "done");
  // The slave joins again with a connection of its own.
  Slave again(board, "a");
  await_callers(board, 1);
}

TEST(Switchboards, FindThatASlaveIsGone) {
  Switchboard board("tcp://127.0.0.1:*", {});
  Slave a(board, "a");
  const auto line = board.line({"a"});
  const auto link = line->listen("", {});
  a.hello();
  const std::string id = heard_on(*link);
  EXPECT_THAT(line->absent(), testing::ElementsAre("a"));
  a.attach();
  await_presence(*line);
  a.die();
  EXPECT_THROW(
      {
        for (int i = 0; i < 500; ++i) {
          link->send(id, Channel::control, {Ping{}, {}}, in(1s));
          std::this_thread::sleep_for(10ms);
        }
      },
      PeerLost);
  EXPECT_THAT(line->absent(), testing::ElementsAre("a")) << "otherwise a run that has not begun would wait for it";
  // Nobody waits for a slave that does not ask any more.
  Slave b(board, "b");
  await_callers(board, 1);
  b.die();
  await_callers(board, 0);
}

TEST(Switchboards, KnowWhomARunHasSentAway) {
  Switchboard board("tcp://127.0.0.1:*", {});
  Slave a(board, "a");
  const auto line = board.line({"a"});
  const auto link = line->listen("", {});
  a.hello();
  const std::string id = heard_on(*link);
  a.attach();
  await_presence(*line);
  link->send(id, Channel::control, {Bye{"the slave did not answer"}, {}}, in(1s));
  EXPECT_THAT(line->absent(), testing::ElementsAre("a"));
}

TEST(Switchboards, RefuseWhomNoRunCouldTake) {
  Switchboard board("tcp://127.0.0.1:*", {}, [](const ServerLink::From&, const Hello& hello) {
    return hello.name == "x" ? std::string("x is unwelcome") : "";
  });
  Slave x(board, "x");
  const auto refused = x.link().receive(in(5s));
  ASSERT_TRUE(refused);
  EXPECT_EQ(std::get<Refused>(refused->envelope.message).reason, "x is unwelcome");
  Slave a(board, "a");
  await_callers(board, 1);
  Slave other(board, "a");
  const auto taken = other.link().receive(in(5s));
  ASSERT_TRUE(taken);
  EXPECT_THAT(std::get<Refused>(taken->envelope.message).reason, HasSubstr("the name 'a' is taken"));
  std::vector<Refusal> all = board.take_refusals();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_THAT(all[0].address, HasSubstr("slave x at 127.0.0.1"));
  EXPECT_EQ(all[0].why, "x is unwelcome");
  EXPECT_TRUE(board.take_refusals().empty());
}

}  // namespace
}  // namespace convoy::wire
