// Tests links between threads of this process over real TCP, with well-behaved and with hostile peers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <zmq.hpp>

#include "tests/wire/peers.hpp"
#include "wire/codec.hpp"
#include "wire/stream.hpp"
#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Expects a message of kind T within 5 s, from any peer, and returns the peer's id.
template <class T>
std::string expect_from_peer(ServerLink& server) {
  const auto from = server.receive(in(5s));
  EXPECT_TRUE(from.has_value());
  if (!from) return "";
  EXPECT_EQ(from->rejected, "");
  EXPECT_TRUE(std::holds_alternative<T>(from->envelope.message)) << name_of(from->envelope.message);
  return from->peer;
}

TEST(Links, CarryMessagesBothWaysOnBothChannels) {
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink client(server.endpoint());
  client.send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
  const std::string peer = expect_from_peer<Hello>(server);
  client.send(Channel::data, {Attach{"a"}, {}}, in(1s));
  EXPECT_EQ(expect_from_peer<Attach>(server), peer);
  EXPECT_TRUE(client.connected());
  server.send(peer, Channel::control, {Welcome{1, "run"}, {}}, in(1s));
  server.send(peer, Channel::data, {Load{3, {0, 1}, {}}, {}}, in(1s));
  bool welcome = false;
  bool load = false;
  for (int i = 0; i < 2; ++i) {
    const auto from = client.receive(in(5s));
    ASSERT_TRUE(from);
    if (from->channel == Channel::control) welcome = std::holds_alternative<Welcome>(from->envelope.message);
    if (from->channel == Channel::data) load = std::holds_alternative<Load>(from->envelope.message);
  }
  EXPECT_TRUE(welcome && load);
}

TEST(Links, KnowTheAddressOfAPeer) {
  TcpServerLink server("tcp://127.0.0.1:*");
  std::vector<std::unique_ptr<ClientLink>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TcpClientLink>(server.endpoint()));
    clients.back()->send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
  }
  for (int i = 0; i < 3; ++i) {
    const auto from = server.receive(in(5s));
    ASSERT_TRUE(from);
    EXPECT_EQ(from->address, "127.0.0.1");
  }
}

TEST(Links, KeepDeadlines) {
  TcpServerLink server("tcp://127.0.0.1:*");
  TcpClientLink client(server.endpoint());
  const auto start = Clock::now();
  EXPECT_FALSE(server.receive(in(100ms)));
  EXPECT_FALSE(client.receive(in(100ms)));
  EXPECT_GE(Clock::now() - start, 190ms) << "ZeroMQ's clock counts milliseconds, so a wait may end early by one";
  EXPECT_LT(Clock::now() - start, 5s);
  EXPECT_FALSE(server.receive(Clock::now() - 1s)) << "a deadline in the past";
}

TEST(Links, CarryLargeTensorsToManyClients) {
  constexpr int kClients = 7;
  TcpServerLink server("tcp://127.0.0.1:*");
  const std::vector<float> sent(std::size_t{1} << 21, 3.0F);  // 8 MiB
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      TcpClientLink client(server.endpoint());
      client.send(Channel::data, {Attach{"x"}, {}}, in(5s));
      std::vector<float> got(sent.size());
      ValueReader reader({got});
      while (!reader.complete()) {
        const auto from = client.receive(in(20s));
        ASSERT_TRUE(from);
        reader.add(std::get<Piece>(from->envelope.message), from->envelope.payload);
      }
      EXPECT_EQ(got, sent);
      client.send(Channel::data, {Done{}, {}}, in(5s));
      client.receive(in(20s));  // keeps the connection open until the Bye
    });
  }
  std::vector<std::string> peers;
  for (int i = 0; i < kClients; ++i) peers.push_back(expect_from_peer<Attach>(server));
  send_values({}, {sent}, [&](const Envelope& piece) {
    for (const std::string& peer : peers) server.send(peer, Channel::data, piece, in(20s));
  });
  for (int i = 0; i < kClients; ++i) {
    const auto from = server.receive(in(20s));
    ASSERT_TRUE(from);
    EXPECT_TRUE(std::holds_alternative<Done>(from->envelope.message));
    server.send(from->peer, Channel::data, {Bye{"done"}, {}}, in(5s));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Links, SendingToNobodyIsPeerLost) {
  TcpServerLink server("tcp://127.0.0.1:*");
  EXPECT_THROW(server.send("nobody", Channel::control, {Ping{}, {}}, in(1s)), PeerLost);
}

/// A slave that computes reads nothing, while the master sends it four Pings a second.
TEST(Links, AClientThatIsBusyStaysConnected) {
  const LinkOptions impatient{.heartbeat_interval = 100ms, .heartbeat_timeout = 1s};
  TcpServerLink server("tcp://127.0.0.1:*", impatient);
  TcpClientLink client(server.endpoint(), impatient);
  client.send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
  const std::string peer = expect_from_peer<Hello>(server);
  for (int i = 0; i < 1000; ++i) server.send(peer, Channel::control, {Ping{}, {}}, in(1s));
  std::this_thread::sleep_for(3s);
  EXPECT_NO_THROW(server.send(peer, Channel::control, {Welcome{1, "run"}, {}}, in(10ms)));
  EXPECT_TRUE(client.connected());
}

TEST(Links, AGoneClientIsNoticed) {
  TcpServerLink server("tcp://127.0.0.1:*");
  auto client = std::make_unique<TcpClientLink>(server.endpoint());
  client->send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
  const std::string peer = expect_from_peer<Hello>(server);
  client.reset();
  const auto start = Clock::now();
  EXPECT_THROW(
      while (Clock::now() - start < 5s) {
        server.send(peer, Channel::control, {Ping{}, {}}, in(10ms));
        std::this_thread::sleep_for(10ms);
      },
      PeerLost);
}

TEST(Links, AGoneServerIsNoticedAndItsSuccessorFound) {
  auto server = std::make_unique<TcpServerLink>("tcp://127.0.0.1:*");
  const std::string endpoint = server->endpoint();
  TcpClientLink client(endpoint);
  client.send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
  expect_from_peer<Hello>(*server);
  server.reset();
  EXPECT_THROW(client.receive(in(5s)), PeerLost);
  EXPECT_FALSE(client.connected());
  server = std::make_unique<TcpServerLink>(endpoint);
  TcpClientLink again(endpoint);
  again.send(Channel::control, {Hello{.name = "a"}, {}}, in(5s));
  expect_from_peer<Hello>(*server);
}

TEST(Links, EndWithUnsentMessagesInTime) {
  const auto start = Clock::now();
  {
    TcpClientLink client("tcp://127.0.0.1:9");  // nobody listens there
    for (int i = 0; i < 20; ++i) {
      client.send(Channel::data, {Piece{}, Payload(1 << 20)}, in(1s));
    }
  }
  EXPECT_LT(Clock::now() - start, 20s) << "ZeroMQ waits for ever unless linger is set";
}

TEST(Links, BadEndpointsAreErrors) {
  EXPECT_THROW(TcpServerLink("nonsense"), Error);
  EXPECT_THROW(TcpClientLink("tcp://"), Error);
  TcpServerLink server("tcp://127.0.0.1:*");
  EXPECT_THROW(TcpServerLink{server.endpoint()}, Error) << "the port is taken";
}

// ---- hostile peers --------------------------------------------------------------------------------------------------

class Hostile : public testing::Test {
 protected:
  zmq::socket_t dealer(const std::string& id) {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::routing_id, id);
    socket.connect(server_.endpoint());
    return socket;
  }

  static void send(zmq::socket_t& socket, const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto flags = i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
      socket.send(zmq::buffer(frames[i]), flags);
    }
  }

  static std::string bytes(const Message& message) {
    const std::vector<std::byte> encoded = encode(message);
    return {reinterpret_cast<const char*>(encoded.data()), encoded.size()};
  }

  void expect_rejected(const std::string& id, const std::vector<std::string>& frames, const std::string& why) {
    zmq::socket_t socket = dealer(id);
    send(socket, frames);
    const auto from = server_.receive(in(5s));
    ASSERT_TRUE(from);
    EXPECT_THAT(from->rejected, HasSubstr(why));
  }

  void expect_alive() {
    TcpClientLink client(server_.endpoint());
    client.send(Channel::control, {Hello{.name = "friend"}, {}}, in(5s));
    expect_from_peer<Hello>(server_);
  }

  zmq::context_t context_{1};
  TcpServerLink server_{"tcp://127.0.0.1:*"};
};

TEST_F(Hostile, APeerWithoutAKeyIsUnreachedAndTheLinkStaysSound) {
  const MasterKeys keys{.master = make_key_pair(), .member = make_key_pair()};
  const TcpServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  TcpClientLink link(server.endpoint(), {.join_key = keys.join_key()});
  link.meet("token", 0,
            {{.node = 1, .name = "evil", .endpoint = "127.0.0.1:9", .key = ""},
             {.node = 2, .name = "odd", .endpoint = "127.0.0.1:9", .key = "no key"}});
  EXPECT_THAT(link.unreached(in(10s)),
              testing::ElementsAre(HasSubstr("evil at 127.0.0.1:9: it announced no public key"),
                                   HasSubstr("odd at 127.0.0.1:9: it announced no public key")));
  EXPECT_FALSE(link.receive(in(300ms)));
}

TEST_F(Hostile, FramesAreRejectedWithAReason) {
  expect_rejected("x/c", {"rubbish"}, "not a message of Convoy");
  expect_rejected("y/c", {""}, "not a message of Convoy");
  expect_rejected("z/d", {bytes(Ping{}), "payload"}, "Ping came with a payload frame");
  expect_rejected("u/d", {bytes(Piece{})}, "Piece came without a payload frame");
  expect_rejected("v/d", {bytes(Piece{}), ""}, "a Piece came without values");
  expect_rejected("w/d", {"a", "b", "c", "d"}, "a message of 4 frames came");
  expect_rejected("stranger", {bytes(Ping{})}, "not a slave of Convoy");
  expect_rejected("control\x01/c", {bytes(Ping{})}, "not a slave of Convoy");
  expect_rejected(std::string(250, 'x') + "/c", {bytes(Ping{})}, "not a slave of Convoy");
  expect_alive();
}

TEST_F(Hostile, OversizeMessagesCostTheirSenderTheConnection) {
  zmq::socket_t socket = dealer("big/d");
  socket.send(zmq::buffer(std::string(std::size_t{32} << 20, 'x')), zmq::send_flags::none);
  EXPECT_FALSE(server_.receive(in(500ms)));
  expect_alive();
}

TEST_F(Hostile, PlainTcpRubbishIsIgnored) {
  const std::string endpoint = server_.endpoint();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  const int handle = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(handle, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string rubbish(10000, '\xff');
  EXPECT_GT(::send(handle, rubbish.data(), rubbish.size(), MSG_NOSIGNAL), 0);
  expect_alive();
  close(handle);
}

}  // namespace
}  // namespace convoy::wire
