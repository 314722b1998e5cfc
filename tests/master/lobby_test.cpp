// Tests who is let into a run: slaves that say Hello, and crowds that say nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <thread>
#include <zmq.hpp>

#include "master/cluster/crew.hpp"
#include "plan/plan.hpp"
#include "tests/support/process.hpp"
#include "tests/support/slave_threads.hpp"
#include "wire/codec.hpp"
#include "wire/tcp_link.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using wire::Channel;
using wire::Clock;

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

/// A run in which some members compute and others do not would give wrong weights and wrong times.
TEST(Joining, PacedAndComputingDevicesDoNotMix) {
  for (const bool paced : {false, true}) {
    Lobby lobby("tcp://127.0.0.1:*", "test");
    Crew crew(lobby);
    lobby.guests().expect_paced(paced);
    std::atomic<bool> stop{false};
    std::thread master([&] { crew.gather(5, stop, [] {}); });
    wire::TcpClientLink one(lobby.endpoint());
    wire::TcpClientLink two(lobby.endpoint());
    const wire::Hello computing{.name = "a"};
    const wire::Hello measuring{.name = "b", .capabilities = {wire::kPaced}};
    EXPECT_EQ(answer_to(one, paced ? measuring : computing), "welcome");
    EXPECT_THAT(answer_to(two, paced ? computing : measuring), HasSubstr("--device paced:GFLOPS"));
    stop = true;
    master.join();
    EXPECT_EQ(crew.present().size(), 1U);
  }
}

TEST(Joining, WrongVersionAndTakenNamesAreRefusedWithTheFix) {
  std::vector<std::string> notices;
  Lobby lobby("tcp://127.0.0.1:*", "test", {}, [&](const std::string& text) { notices.push_back(text); });
  Crew crew(lobby);
  std::atomic<bool> stop{false};
  std::thread master([&] { crew.gather(5, stop, [] {}); });
  wire::TcpClientLink one(lobby.endpoint());
  wire::TcpClientLink two(lobby.endpoint());
  const std::uint32_t version = wire::kProtocolVersion;
  EXPECT_THAT(answer_to(one, {.version = version + 1, .name = "a"}), HasSubstr("run the same release of Convoy"));
  EXPECT_EQ(answer_to(one, {.version = version, .name = "a"}), "welcome");
  EXPECT_EQ(answer_to(one, {.version = version, .name = "a"}), "welcome")
      << "a repeated Hello must not count as a second slave";
  EXPECT_THAT(answer_to(two, {.version = version, .name = "a"}), HasSubstr("another --name"));
  EXPECT_THAT(answer_to(two, {.version = version, .name = "master"}), HasSubstr("another --name"));
  EXPECT_EQ(answer_to(two, {.version = version, .name = "b"}), "welcome");
  stop = true;
  master.join();
  EXPECT_THAT(notices, ElementsAre(HasSubstr("turned away slave a at 127.0.0.1: the master speaks version"),
                                   HasSubstr("turned away slave a at 127.0.0.1: the name 'a' is taken"),
                                   HasSubstr("turned away slave master at 127.0.0.1: the name 'master' is taken")));
}

/// Without members nothing else pings the guests.
TEST(Joining, GuestsThatHaveGoneAreNoticedWhileTheMasterTrainsAlone) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  const auto attend_until = [&](std::size_t guests) {
    const auto until = Clock::now() + 10s;
    while (crew.present().size() != guests && Clock::now() < until) {
      crew.attend();
      std::this_thread::sleep_for(10ms);
    }
    return crew.present().size();
  };
  auto link = std::make_unique<wire::TcpClientLink>(lobby.endpoint());
  link->send(Channel::control, {wire::Hello{.name = "a"}, {}}, Clock::now() + 5s);
  ASSERT_EQ(attend_until(1), 1U);
  link.reset();
  EXPECT_EQ(attend_until(0), 0U);
}

TEST(Joining, AdmitOnlyLetsTheNamedSlavesIn) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  std::atomic<bool> stop{false};
  lobby.guests().admit_only({"a", "b"}, "the shares are fixed for a and b");
  std::thread master([&] { crew.gather(5, stop, [] {}); });
  wire::TcpClientLink one(lobby.endpoint());
  wire::TcpClientLink two(lobby.endpoint());
  const std::uint32_t version = wire::kProtocolVersion;
  EXPECT_EQ(answer_to(one, {.version = version, .name = "a"}), "welcome");
  EXPECT_EQ(answer_to(two, {.version = version, .name = "c"}), "the shares are fixed for a and b");
  EXPECT_EQ(answer_to(two, {.version = version, .name = "b"}), "welcome") << "a refused slave may join by another name";
  stop = true;
  master.join();
  std::vector<std::string> names;
  for (const SlaveInfo& slave : crew.present()) names.push_back(slave.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("a", "b"));
}

TEST(Joining, AdmitOnlySendsOthersAwayThatWait) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  SlaveThreads threads(lobby.endpoint(), 3, {"reference"});
  const std::atomic<bool> stop{false};
  const auto until = Clock::now() + 20s;
  while (lobby.guests().ready() < 3 && Clock::now() < until) crew.attend();
  ASSERT_EQ(lobby.guests().ready(), 3);
  ASSERT_TRUE(crew.gather(
      2, stop, [] {}, 2));
  ASSERT_EQ(crew.slaves().size(), 2U) << "no more than the shares are for";
  ASSERT_TRUE(crew.changes()) << "the third waits";
  lobby.guests().admit_only({crew.slaves()[0].name, crew.slaves()[1].name}, "the shares are fixed");
  EXPECT_FALSE(crew.changes());
  EXPECT_EQ(crew.present().size(), 2U);
}

/// Names that would rewrite a terminal, forge a line of a log, or that no JSON can hold.
TEST(Joining, NamesThatCannotBePrintedAreRefusedAndDoNotReachTheMaster) {
  std::vector<std::string> notices;
  Lobby lobby("tcp://127.0.0.1:*", "test", {}, [&](const std::string& text) { notices.push_back(text); });
  Crew crew(lobby);
  std::atomic<bool> stop{false};
  std::vector<SlaveInfo> here;
  std::thread master([&] { crew.gather(5, stop, [&] { here = crew.present(); }); });
  wire::TcpClientLink link(lobby.endpoint());
  for (const std::string& name : {std::string("\xff\xfe"), std::string("a\x1b[2J\n"), std::string(65, 'n')}) {
    EXPECT_THAT(answer_to(link, {.version = wire::kProtocolVersion, .name = name}),
                AllOf(HasSubstr("the name"), HasSubstr("start this slave with another --name")));
  }
  EXPECT_EQ(answer_to(link, {.version = wire::kProtocolVersion, .name = "a", .device = "chip\x1b[31m\xff"}), "welcome");
  stop = true;
  master.join();
  ASSERT_EQ(here.size(), 1U);
  EXPECT_EQ(here[0].device, "chip\\x1b[31m\\xff");
  ASSERT_EQ(notices.size(), 3U);
  EXPECT_THAT(notices[0], HasSubstr("turned away slave \\xff\\xfe at 127.0.0.1"));
  EXPECT_THAT(notices[1], AllOf(HasSubstr("a\\x1b[2J\\x0a"), testing::Not(HasSubstr("\x1b"))));
}

// ---- the lobby -----------------------------------------------------------------------------------------------------

/// Many clients in one context; they say Hello, and no more than they are told to.
class Crowd {
 public:
  Crowd(const std::string& endpoint, int count) : endpoint_(endpoint) {
    for (int i = 0; i < count; ++i) {
      send(i, "/c", wire::Hello{.name = fmt::format("guest{}", i)});
    }
  }
  void attach() {
    const int count = static_cast<int>(sockets_.size());
    for (int i = 0; i < count; ++i) send(i, "/d", wire::Attach{fmt::format("guest{}", i)});
  }

 private:
  void send(int guest, const std::string& channel, const wire::Message& message) {
    zmq::socket_t& socket = sockets_.emplace_back(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::routing_id, fmt::format("guest{}{}", guest, channel));
    socket.connect(endpoint_);
    const std::vector<std::byte> bytes = wire::encode(message);
    socket.send(zmq::buffer(bytes.data(), bytes.size()), zmq::send_flags::none);
  }

  std::string endpoint_;
  zmq::context_t context_{1};
  std::list<zmq::socket_t> sockets_;
};

TEST(Lobby, IsOpenToASlaveAlthoughACrowdHasSaidHelloAndNoMore) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  const Crowd crowd(lobby.endpoint(), 300);
  const auto until = Clock::now() + 3s;
  while (Clock::now() < until) crew.attend();
  std::atomic<bool> stop{false};
  std::thread clock([&] {
    for (int i = 0; i < 300 && !stop; ++i) std::this_thread::sleep_for(100ms);
    stop = true;
  });
  const SlaveThreads honest(lobby.endpoint(), 1, {"reference"});
  const bool gathered = crew.gather(1, stop, [] {});
  stop = true;
  clock.join();
  ASSERT_TRUE(gathered) << "the slave was not let in within 30 s";
  EXPECT_EQ(crew.slaves()[0].name, "a");
}

TEST(Lobby, DoesNotKeepARunWaitingForGuestsThatDoNotAnswer) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  Crowd crowd(lobby.endpoint(), 50);
  crowd.attach();
  const auto until = Clock::now() + 2s;
  while (Clock::now() < until) crew.attend();
  EXPECT_EQ(crew.present().size(), 50U);
  EXPECT_FALSE(crew.changes());
}

TEST(Joining, ASlaveWhoseKeyOtherSlavesCouldNotUseIsRefused) {
  const TemporaryFolder folder;
  const auto ring = std::make_shared<KeyRing>(folder.path() + "/keys.json");
  const wire::MasterKeys& keys = ring->keys();
  Lobby lobby("tcp://127.0.0.1:*", "test", ring);
  Crew crew(lobby);
  std::atomic<bool> stop{false};
  std::thread master([&] { crew.gather(5, stop, [] {}); });
  wire::TcpClientLink link(lobby.endpoint(), {.join_key = keys.join_key()});
  for (const std::string& key : {std::string(), std::string("key"), std::string(40, ' ')}) {
    EXPECT_THAT(answer_to(link, {.name = "a", .peer_key = key}), HasSubstr("public key towards other slaves"));
  }
  EXPECT_EQ(answer_to(link, {.name = "a", .peer_key = link.peer_key()}), "welcome");
  stop = true;
  master.join();
}

}  // namespace
}  // namespace convoy
