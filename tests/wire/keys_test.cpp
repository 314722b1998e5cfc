// Links with keys: for those that have them, and for nobody else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/link.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Deadline in(std::chrono::milliseconds time) { return Clock::now() + time; }

MasterKeys fresh_keys() { return {make_key_pair(), make_key_pair()}; }

/// Whether a slave with that key gets a word through to the master; it is told if it does not.
bool reaches(ServerLink& server, const std::optional<JoinKey>& key) {
  ClientLink client(server.endpoint(), {.join_key = key});
  const auto until = in(10s);
  bool said = false;
  while (Clock::now() < until) {
    if (client.connected() && !std::exchange(said, true))
      client.send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
    if (const auto from = server.receive(in(20ms))) return from->rejected.empty();
    if (client.turned_away()) return false;
    client.receive(in(20ms));
  }
  ADD_FAILURE() << "neither in nor turned away";
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
    EXPECT_THAT([&] { join_key_from(wrong); }, testing::ThrowsMessage<Error>(HasSubstr("--key")));
  }
}

TEST(Keys, LetTheirOwnersInAndNobodyElse) {
  const MasterKeys keys = fresh_keys();
  ServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  EXPECT_TRUE(reaches(server, keys.join_key()));
  EXPECT_FALSE(reaches(server, std::nullopt)) << "a downgrade";
  EXPECT_FALSE(reaches(server, JoinKey{keys.master.public_key, make_key_pair()})) << "knows the master alone";
  EXPECT_FALSE(reaches(server, JoinKey{make_key_pair().public_key, keys.member})) << "another master's";
  EXPECT_TRUE(reaches(server, keys.join_key()));
}

TEST(Keys, AreNotShownToAMasterThatHasNone) {
  ServerLink server("tcp://127.0.0.1:*");
  EXPECT_FALSE(reaches(server, fresh_keys().join_key()));
  EXPECT_TRUE(reaches(server, std::nullopt));
}

std::string at(const ClientLink& peer) { return fmt::format("127.0.0.1:{}", peer.peer_port()); }

TEST(Keys, OfSlavesKeepStrangersOut) {
  const MasterKeys keys = fresh_keys();
  ServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  ClientLink a(server.endpoint(), {.join_key = keys.join_key()});
  ClientLink b(server.endpoint(), {.join_key = keys.join_key()});
  b.meet("token", 1, {});
  a.meet("token", 0, {{1, "b", at(b), b.peer_key()}});
  ASSERT_THAT(a.unreached(in(5s)), testing::IsEmpty());
  a.send_to_peer(1, {Piece{.step = 1, .task = 7}, Payload(8)});
  const auto from = b.receive(in(5s));
  ASSERT_TRUE(from);
  EXPECT_EQ(from->node, 0);

  a.meet("token", 0, {{1, "b", at(b), make_key_pair().public_key}});
  EXPECT_THAT(a.unreached(in(500ms)), testing::SizeIs(1)) << "another listens there";
  ClientLink stranger(server.endpoint());
  stranger.meet("token", 0, {{1, "b", at(b), ""}});
  EXPECT_THAT(stranger.unreached(in(500ms)), testing::SizeIs(1));
  EXPECT_THAT(
      [&] {
        a.meet("token", 0, {{1, "b", at(b), ""}});
      },
      testing::ThrowsMessage<Error>(HasSubstr("slave b has told no key")));
}

}  // namespace
}  // namespace convoy::wire
