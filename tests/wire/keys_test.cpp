// Tests that links with keys admit the slaves that have the keys, and no others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <tuple>

#include "tests/wire/peers.hpp"
#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

MasterKeys fresh_keys() { return {make_key_pair(), make_key_pair()}; }

/// Whether a slave with this key gets a message through to the master. A slave that does not must be told so.
bool reaches(ServerLink& server, const std::optional<JoinKey>& key) {
  TcpClientLink client(server.endpoint(), {.join_key = key});
  const auto until = in(10s);
  bool said = false;
  while (Clock::now() < until) {
    if (client.connected() && !std::exchange(said, true))
      client.send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
    if (const auto from = server.receive(in(20ms))) return from->rejected.empty();
    if (client.turned_away()) return false;
    client.receive(in(20ms));
  }
  ADD_FAILURE() << "the slave was neither admitted nor turned away";
  return false;
}

TEST(Keys, AsPeoplePasteThem) {
  const JoinKey key = fresh_keys().join_key();
  const std::string text = to_text(key);
  EXPECT_EQ(text.size(), 128U);
  const JoinKey read = join_key_from(text);
  EXPECT_EQ(read.master, key.master);
  EXPECT_EQ(read.member.public_key, key.member.public_key);
  EXPECT_EQ(read.member.secret_key, key.member.secret_key);
  for (const std::string& wrong : {std::string(), text.substr(1), text + "0", std::string(128, 'x')}) {
    EXPECT_THAT([&] { join_key_from(wrong); }, testing::ThrowsMessage<Error>(HasSubstr("hexadecimal digits")));
  }
}

/// Waits for the first refusal, and for others that arrive with it.
std::vector<Refusal> refusals(ServerLink& server) {
  const auto until = in(5s);
  std::vector<Refusal> all;
  while (all.empty() && Clock::now() < until) {
    all = server.take_refusals();
    std::this_thread::sleep_for(10ms);
  }
  std::this_thread::sleep_for(100ms);  // for the client's other connection
  server.take_refusals();
  return all;
}

auto from_here(const std::string& why) {
  return testing::AllOf(Field(&Refusal::address, "127.0.0.1"), Field(&Refusal::why, HasSubstr(why)));
}

TEST(Keys, LetTheirOwnersInAndNobodyElse) {
  const MasterKeys keys = fresh_keys();
  TcpServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  EXPECT_TRUE(reaches(server, keys.join_key()));
  EXPECT_THAT(server.take_refusals(), IsEmpty());
  EXPECT_FALSE(reaches(server, std::nullopt)) << "an unencrypted client must not get in";
  // The client breaks off too, and may be gone before the master asks for its address.
  EXPECT_THAT(refusals(server), Not(IsEmpty()));
  const auto turned_away = [&](const JoinKey& key, const std::string& why) {
    // On a busy machine the client may be gone before the master asks for its address.
    for (int attempt = 0; attempt < 5; ++attempt) {
      EXPECT_FALSE(reaches(server, key));
      if (testing::Matches(Contains(from_here(why)))(refusals(server))) return true;
    }
    return false;
  };
  EXPECT_TRUE(turned_away({keys.master.public_key, make_key_pair()}, "its key is not the key of this master's slaves"));
  EXPECT_TRUE(turned_away({make_key_pair().public_key, keys.member}, "it does not have this master's key"));
  EXPECT_TRUE(reaches(server, keys.join_key()));
}

/// A TCP connection to a port of this machine.
class Connection {
 public:
  explicit Connection(int handle) : handle_(handle) {}
  static Connection to(int port) {
    Connection made(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(made.handle_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return made;
  }
  Connection(Connection&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection& operator=(Connection&&) = delete;
  ~Connection() {
    if (handle_ >= 0) close(handle_);
  }

  int handle() const { return handle_; }
  void send(const std::string& bytes) const { std::ignore = ::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// The bytes that arrive within `time`; empty if the connection was closed.
  std::string receive(std::chrono::milliseconds time) const {
    pollfd item{handle_, POLLIN, 0};
    std::array<char, 65536> buffer;
    if (poll(&item, 1, static_cast<int>(time.count())) <= 0) return {};
    const ssize_t count = recv(handle_, buffer.data(), buffer.size(), 0);
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count))};
  }

 private:
  int handle_;
};

TEST(Keys, AreNotMissedInConnectionsWithoutThem) {
  TcpServerLink server("tcp://127.0.0.1:*", {});
  std::vector<Refusal> all;
  // The connection may be closed before the master asks for its address.
  for (int attempt = 0; attempt < 5 && !testing::Matches(Contains(from_here("")))(all); ++attempt) {
    const Connection client = Connection::to(std::stoi(server.endpoint().substr(server.endpoint().rfind(':') + 1)));
    std::string greeting(64, '\0');
    greeting.replace(0, 1, "\xff").replace(9, 2, "\x7f\x03").replace(12, 4, "NULL");
    client.send(greeting);
    client.receive(100ms);
    shutdown(client.handle(), SHUT_RDWR);
    all = refusals(server);
  }
  EXPECT_THAT(all, Contains(from_here("before it said what it is")));
  for (const Refusal& each : all) EXPECT_THAT(each.why, Not(HasSubstr("key")));
}

using Words = std::vector<std::string>;

/// Relays the bytes between a client and a server, and records the bytes of each of the client's connections.
class Eavesdropper {
 public:
  explicit Eavesdropper(int server) : server_(server), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_TRUE(bind(listener_.handle(), plain, size) == 0 && listen(listener_.handle(), 4) == 0);
    getsockname(listener_.handle(), plain, &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { pass_on(); });
  }
  int port() const { return port_; }
  std::vector<Words> heard() {
    stop_ = true;
    thread_.join();
    return heard_;
  }

 private:
  void pass_on() {
    std::vector<std::pair<Connection, Connection>> pairs;
    while (!stop_) {
      pollfd item{listener_.handle(), POLLIN, 0};
      if (poll(&item, 1, 1) > 0) {
        pairs.emplace_back(accept(listener_.handle(), nullptr, nullptr), Connection::to(server_));
        heard_.emplace_back();
      }
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const std::string said = pairs[i].first.receive(1ms);
        if (!said.empty()) heard_[i].push_back(said);
        pairs[i].second.send(said);
        pairs[i].first.send(pairs[i].second.receive(1ms));
      }
    }
  }

  int server_;
  int port_ = 0;
  Connection listener_;
  std::vector<Words> heard_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(Keys, OfAJoinThatSomebodyHeardOpenNoDoor) {
  const MasterKeys keys = fresh_keys();
  TcpServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  const std::string endpoint = server.endpoint();
  const int port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
  Eavesdropper between(port);
  {
    TcpClientLink client(fmt::format("tcp://127.0.0.1:{}", between.port()), {.join_key = keys.join_key()});
    client.send(Channel::control, {Hello{.name = "a"}, {}}, in(5s));
    client.send(Channel::data, {Attach{"a"}, {}}, in(5s));
    ASSERT_TRUE(server.receive(in(5s)));
    ASSERT_TRUE(server.receive(in(5s)));
  }
  for (const Words& words : between.heard()) {
    const Connection again = Connection::to(port);
    for (const std::string& said : words) {
      again.send(said);
      again.receive(100ms);  // the client sends more once the server has answered
    }
    EXPECT_FALSE(server.receive(in(300ms)));
    // On a busy machine the connection may be closed before the master asks for its address.
    EXPECT_THAT(refusals(server), ElementsAre(Field(&Refusal::why, HasSubstr("it does not have this master's key"))));
  }
}

TEST(Keys, AreNotShownToAMasterThatHasNone) {
  TcpServerLink server("tcp://127.0.0.1:*");
  EXPECT_FALSE(reaches(server, fresh_keys().join_key()));
  EXPECT_TRUE(reaches(server, std::nullopt));
}

TEST(Keys, OfSlavesKeepStrangersOut) {
  const MasterKeys keys = fresh_keys();
  TcpServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  TcpClientLink a(server.endpoint(), {.join_key = keys.join_key()});
  TcpClientLink b(server.endpoint(), {.join_key = keys.join_key()});
  b.meet("token", 1, {}, {keys.member.public_key});
  a.meet("token", 0, {{1, "b", at(b), b.peer_key()}});
  ASSERT_THAT(a.unreached(in(5s)), IsEmpty());
  a.send_to_peer(1, Lane::prompt, {Piece{.step = 1, .task = 7}, Payload(8)});
  const auto from = b.receive(in(5s));
  ASSERT_TRUE(from);
  EXPECT_EQ(from->node, 0);

  a.meet("token", 0, {{1, "b", at(b), make_key_pair().public_key}});
  EXPECT_THAT(a.unreached(in(500ms)), testing::SizeIs(1)) << "a slave with another key listens there";
  TcpClientLink stranger(server.endpoint());
  stranger.meet("token", 0, {{1, "b", at(b), ""}});
  EXPECT_THAT(stranger.unreached(in(500ms)), testing::SizeIs(1));
  a.meet("token", 0, {{1, "b", at(b), ""}});
  EXPECT_THAT(a.unreached(in(5s)), testing::ElementsAre(HasSubstr("it announced no public key")));
}

/// As a plan that lacks a revoked slave. The plan may reach the slaves in any order, so a slave that comes too early
/// must get through later.
TEST(Keys, OfAPlanAdmitItsSlavesAlone) {
  const MasterKeys keys = fresh_keys();
  TcpServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  const JoinKey own{keys.master.public_key, make_key_pair()};
  TcpClientLink a(server.endpoint(), {.join_key = own});
  TcpClientLink b(server.endpoint(), {.join_key = keys.join_key()});
  a.meet("token", 0, {{1, "b", at(b), b.peer_key()}});
  EXPECT_THAT(a.unreached(in(500ms)), testing::SizeIs(1)) << "b has no plan yet";
  b.meet("token", 1, {}, {keys.member.public_key});
  EXPECT_THAT(a.unreached(in(500ms)), testing::SizeIs(1)) << "the plan of b has other slaves";
  b.meet("token", 1, {}, {keys.member.public_key, own.member.public_key});
  ASSERT_THAT(a.unreached(in(10s)), IsEmpty());
  a.send_to_peer(1, Lane::prompt, {Piece{.step = 1, .task = 7}, Payload(8)});
  const auto from = b.receive(in(5s));
  ASSERT_TRUE(from);
  EXPECT_EQ(from->node, 0);
  b.meet("token", 1, {}, {keys.member.public_key});
  a.send_to_peer(1, Lane::prompt, {Piece{.step = 1, .task = 8}, Payload(8)});
  EXPECT_FALSE(b.receive(in(300ms))) << "a is connected, but is no slave of the plan any more";
}

TEST(Keys, AreAskedAboutForEachMessage) {
  const MasterKeys keys = fresh_keys();
  const JoinKey own{keys.master.public_key, make_key_pair()};
  std::atomic<bool> revoked{false};
  TcpServerLink server("tcp://127.0.0.1:*", {.keys = keys, .admission = [&](const std::string& key) -> std::string {
                                               return key == own.member.public_key && revoked ? "it was revoked" : "";
                                             }});
  TcpClientLink client(server.endpoint(), {.join_key = own});
  client.send(Channel::control, {Hello{.name = "a"}, {}}, in(5s));
  const auto from = server.receive(in(10s));
  ASSERT_TRUE(from);
  EXPECT_EQ(from->key, own.member.public_key);
  revoked = true;
  client.send(Channel::control, {Hello{.name = "a"}, {}}, in(5s));
  EXPECT_FALSE(server.receive(in(300ms)));
  EXPECT_FALSE(reaches(server, own));
  EXPECT_THAT(refusals(server), Contains(from_here("it was revoked")));
  EXPECT_TRUE(reaches(server, keys.join_key()));
}

}  // namespace
}  // namespace convoy::wire
