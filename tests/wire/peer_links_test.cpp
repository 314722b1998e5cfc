// Tests links of slaves among themselves, between threads of this process over real TCP.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/wire/peers.hpp"
#include "wire/buffers.hpp"
#include "wire/stream.hpp"
#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// The next message from a peer. The test fails if none arrives within 5 s.
ClientLink::From from_peer(ClientLink& link) {
  auto from = link.receive(in(5s));
  EXPECT_TRUE(from.has_value());
  if (!from) return {};
  EXPECT_EQ(from->channel, Channel::peer);
  return std::move(*from);
}

TEST(PeerLinks, CarryMessagesBothWays) {
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink a(server.endpoint());
  TcpClientLink b(server.endpoint());
  a.meet("token", 0, {{1, "b", at(b)}});
  b.meet("token", 1, {{0, "a", fmt::format(":{}", a.peer_port())}});  // on the master's host
  EXPECT_THAT(a.unreached(in(5s)), testing::IsEmpty());
  EXPECT_THAT(b.unreached(in(5s)), testing::IsEmpty());
  a.send_to_peer(1, Lane::prompt, {Piece{.step = 1, .task = 7}, Payload(8)});
  const auto from = from_peer(b);
  EXPECT_EQ(from.node, 0);
  EXPECT_EQ(std::get<Piece>(from.envelope.message).task, 7U);
  b.send_to_peer(0, Lane::prompt, {Piece{.step = 2, .task = 8}, Payload(8)});
  EXPECT_EQ(from_peer(a).node, 1);
}

/// A small value that a computation waits for must not queue behind the weights of a whole net.
TEST(PeerLinks, HaveALaneThatDoesNotWaitForTheBulk) {
  constexpr std::uint64_t kBulk = 64;
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink a(server.endpoint());
  TcpClientLink b(server.endpoint());
  b.meet("token", 1, {});
  a.meet(
      "token", 0,
      {{.node = 1, .name = "b", .endpoint = at(b)}, {.node = 1, .name = "b", .endpoint = at(b), .lane = Lane::bulk}});
  ASSERT_THAT(a.unreached(in(5s)), testing::IsEmpty());
  for (std::uint64_t i = 0; i < kBulk; ++i) {
    a.send_to_peer(1, Lane::bulk, {Piece{.step = i, .task = 1}, Payload(kPieceBytes)});
  }
  a.send_to_peer(1, Lane::prompt, {Piece{.step = 99, .task = 2}, Payload(8)});
  std::uint64_t bulk = 0;
  std::uint64_t before = kBulk;
  for (std::uint64_t i = 0; i <= kBulk; ++i) {
    const auto from = from_peer(b);
    EXPECT_EQ(from.node, 0) << "in both lanes";
    const auto& piece = std::get<Piece>(from.envelope.message);
    if (piece.task == 2) {
      before = bulk;
    } else {
      EXPECT_EQ(piece.step, bulk++) << "one lane keeps its order";
    }
  }
  EXPECT_LT(before, kBulk);
}

/// The port of one end of a TCP connection; 0 if there is no such connection.
int port_of(int descriptor, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (end(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // The port of an IPv6 address stands at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// Returns the descriptors of this process's connections to a port of this machine (SO_SNDBUF), or of those that the
/// port accepted (SO_RCVBUF).
std::vector<int> connections_at(int port, int option) {
  std::vector<int> found;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    const int from = port_of(descriptor, getsockname);
    const int to = port_of(descriptor, getpeername);
    if (to != 0 && (option == SO_RCVBUF ? from : to) == port) found.push_back(descriptor);
  }
  return found;
}

/// The size of a connection's buffer.
int buffer_of(int descriptor, int option) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  EXPECT_EQ(getsockopt(descriptor, SOL_SOCKET, option, &bytes, &size), 0);
  return bytes;
}

/// The size of a buffer that is one of `connections` which share a card. The kernel takes twice the bytes, for its own
/// data about them.
int shared_buffer(int descriptor, int option, int connections) {
  int most = 0;
  std::ifstream(option == SO_RCVBUF ? "/proc/sys/net/core/rmem_max" : "/proc/sys/net/core/wmem_max") >> most;
  return 2 * std::min(most, share_of_card(connections, segment_of(descriptor)));
}

TEST(Buffers, AreSharedEvenlyButHoldFourSegments) {
  constexpr int kEthernet = 1448;
  EXPECT_EQ(share_of_card(1, kEthernet), 128 * 1024);
  EXPECT_EQ(share_of_card(7, kEthernet), 128 * 1024 / 7);
  EXPECT_EQ(share_of_card(100, kEthernet), 16 * 1024);
  constexpr int kLoopback = 65483;
  EXPECT_EQ(share_of_card(1, kLoopback), 4 * kLoopback);
  EXPECT_EQ(share_of_card(100, kLoopback), 4 * kLoopback);
}

/// Otherwise TCP gives one slave the link for seconds, and the others wait for another.
TEST(PeerLinks, OfEightSlavesHaveFewBytesOnTheWay) {
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink slave(server.endpoint());
  const int port = std::stoi(server.endpoint().substr(server.endpoint().rfind(':') + 1));
  const auto until = in(5s);
  while ((!slave.connected() || connections_at(port, SO_SNDBUF).size() < 2) && Clock::now() < until) {
    std::this_thread::sleep_for(1ms);
  }
  const std::vector<int> to_master = connections_at(port, SO_SNDBUF);
  ASSERT_EQ(to_master.size(), 2U) << "the control and the data connection";
  const auto buffers = [&] {
    std::vector<int> both{buffer_of(to_master[0], SO_SNDBUF), buffer_of(to_master[1], SO_SNDBUF)};
    std::ranges::sort(both);
    return both;
  };
  const std::vector<int> before = buffers();
  slave.share_cards(1);
  EXPECT_EQ(buffers(), before) << "a single slave has what the system chooses";
  slave.share_cards(8);
  EXPECT_THAT(buffers(), testing::ElementsAre(shared_buffer(to_master[0], SO_SNDBUF, 8), before.back()))
      << "the data connection alone";

  std::vector<std::unique_ptr<TcpClientLink>> others;
  for (int node = 1; node < 8; ++node) {
    others.push_back(std::make_unique<TcpClientLink>(server.endpoint()));
    others.back()->meet("token", node, {{0, "slave", at(slave)}});
    EXPECT_THAT(others.back()->unreached(in(5s)), testing::IsEmpty());
  }
  slave.share_cards(8);  // takes the connections that were accepted since then
  const std::vector<int> from_slaves = connections_at(slave.peer_port(), SO_RCVBUF);
  EXPECT_EQ(from_slaves.size(), 7U);
  for (const int each : from_slaves) EXPECT_EQ(buffer_of(each, SO_RCVBUF), shared_buffer(each, SO_RCVBUF, 7));
  slave.share_cards(1);
  EXPECT_GT(buffers().front(), shared_buffer(to_master[0], SO_SNDBUF, 8));
}

TEST(PeerLinks, OfOtherRunsAreIgnored) {
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink a(server.endpoint());
  TcpClientLink b(server.endpoint());
  b.meet("now", 1, {});
  for (const std::string token : {"before", "now", "nowhere"}) {
    a.meet(token, 0, {{1, "b", at(b)}});
    ASSERT_THAT(a.unreached(in(5s)), testing::IsEmpty());
    a.send_to_peer(1, Lane::prompt, {Piece{.task = token == "now" ? 1U : 2U}, Payload(8)});
  }
  EXPECT_EQ(std::get<Piece>(from_peer(b).envelope.message).task, 1U);
  EXPECT_FALSE(b.receive(in(200ms)));
}

TEST(PeerLinks, ThatCannotBeMadeAreNamed) {
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink a(server.endpoint());
  a.meet("token", 0,
         {{1, "garage", "127.0.0.1:9"}, {.node = 1, .name = "garage", .endpoint = "127.0.0.1:9", .lane = Lane::bulk}});
  EXPECT_THAT(a.unreached(in(200ms)), testing::ElementsAre("garage at 127.0.0.1:9")) << "once for both lanes";
  a.meet("token", 0, {{1, "garage", "no address"}});
  EXPECT_THAT(a.unreached(in(10s)), testing::ElementsAre(HasSubstr("garage at no address: ")));
}

TEST(PeerLinks, ThatBreakAreNamed) {
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink a(server.endpoint());
  auto b = std::make_unique<TcpClientLink>(server.endpoint());
  a.meet("token", 0, {{1, "garage", at(*b)}});
  ASSERT_THAT(a.unreached(in(5s)), testing::IsEmpty());
  b.reset();
  EXPECT_THAT(
      [&] {
        const auto until = in(5s);
        while (Clock::now() < until) a.receive(in(50ms));
      },
      testing::ThrowsMessage<Error>(HasSubstr("the link to slave garage broke")));
}

TEST(PeerLinks, OnATakenPortAreRefusedWithTheFix) {
  TcpServerLink server("tcp://127.0.0.1:*");
  const TcpClientLink a(server.endpoint());
  EXPECT_THAT([&] { TcpClientLink(server.endpoint(), {}, a.peer_port()); },
              testing::ThrowsMessage<Error>(HasSubstr("--peer-port")));
}

}  // namespace
}  // namespace convoy::wire
