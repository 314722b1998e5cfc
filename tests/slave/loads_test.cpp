// Tests the states that a master has a slave load. Blocks that the slave still has do not travel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/fake_master.hpp"
#include "wire/stream.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// Has the slave load the state. Returns the number of blocks that the slave wanted.
std::size_t load(FakeMaster& master, const ShardState& state, bool moments = true) {
  master.send(wire::Load{0, {0, 4}, wire::contents_of(state, {0, 4}), NumberType::fp32, moments});
  const wire::Message answer = master.next();
  const auto* wanted = std::get_if<wire::Wanted>(&answer);
  if (wanted == nullptr) {
    ADD_FAILURE() << wire::name_of(answer) << " came where Wanted was due";
    return 0;
  }
  if (!wanted->blocks.empty()) {
    wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(state),
                      [&](const wire::Envelope& piece) { master.send(piece); });
  }
  EXPECT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  return wanted->blocks.size();
}

ShardState state_of(float value, int filters = 4) {
  ShardState state = zero_state(stage(), filters);
  for_each_tensor(state, [&](Tensor& tensor) { std::ranges::fill(tensor.span(), value); });
  return state;
}

TEST(Loads, BringWhatTheSlaveHasNot) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.assign();
  EXPECT_EQ(load(master, state_of(1.0F)), 1U);
  EXPECT_EQ(load(master, state_of(2.0F)), 1U);
  EXPECT_EQ(load(master, state_of(1.0F)), 0U) << "the slave had this state before";
  master.send(wire::Snapshot{0, {0, 4}});
  const wire::Envelope piece = master.next_envelope();
  EXPECT_EQ(piece.payload.floats()[0], 1.0F) << "the slave holds the state again";
}

/// A replica that goes on with its own moments is given weights alone, and answers with weights alone.
TEST(Loads, LeaveTheMomentsThatTheyDoNotBring) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.assign();
  EXPECT_EQ(load(master, state_of(1.0F)), 1U);
  ShardState values = state_of(2.0F);
  drop_moments(values);
  EXPECT_EQ(load(master, values, false), 1U);
  ShardState both = zero_state(stage(), 4);
  wire::ValueReader whole(wire::values_of(both));
  master.send(wire::Snapshot{0, {0, 4}});
  while (!whole.complete()) {
    const wire::Envelope piece = master.next_envelope();
    whole.add(std::get<wire::Piece>(piece.message), piece.payload);
  }
  EXPECT_EQ(both.weights().data()[0], 2.0F);
  EXPECT_EQ(both.parameters[0].moments[0].data()[0], 1.0F);
  ShardState bare = values;
  wire::ValueReader some(wire::values_of(bare));
  master.send(wire::Snapshot{.stage_index = 0, .filters = {0, 4}, .moments = false});
  while (!some.complete()) {
    const wire::Envelope piece = master.next_envelope();
    some.add(std::get<wire::Piece>(piece.message), piece.payload);  // more values would not fit
  }
  EXPECT_EQ(bare.weights().data()[0], 2.0F);
}

TEST(Loads, BringWhatWasLongAgo) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.assign();
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F}) EXPECT_EQ(load(master, state_of(value)), 1U);
  EXPECT_EQ(load(master, state_of(2.0F)), 0U);
  EXPECT_EQ(load(master, state_of(3.0F)), 0U);
  EXPECT_EQ(load(master, state_of(4.0F)), 0U);
  EXPECT_EQ(load(master, state_of(1.0F)), 1U) << "the slave keeps three states of its shard";
}

TEST(Loads, TakeOtherSlavesStatesMeanwhile) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  wire::TcpClientLink other(master.endpoint());
  master.send(halves(master, other, {{0, {0, 2}, 1, 0}}));
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  other.meet("halves", 1, {{0, "worker", fmt::format("127.0.0.1:{}", master.peer_port())}});
  ASSERT_TRUE(other.unreached(Clock::now() + 5s).empty());
  const ShardState loaded = state_of(1.0F, 2);
  master.send(wire::Load{0, {0, 2}, wire::contents_of(loaded, {0, 2})});
  ASSERT_TRUE(std::holds_alternative<wire::Wanted>(master.next()));
  // The other slave's state comes between the Load and its Pieces.
  const ShardState moved = state_of(2.0F, 2);
  wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(moved),
                    [&](const wire::Envelope& piece) { other.send_to_peer(0, Lane::prompt, piece); });
  std::this_thread::sleep_for(500ms);
  wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(loaded),
                    [&](const wire::Envelope& piece) { master.send(piece); });
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next())) << "for the Load";
  master.send(wire::Move{});
  ASSERT_TRUE(std::holds_alternative<wire::Done>(master.next())) << "for the Move, whose values came before";
}

TEST(Loads, ShowLifeWhileTheMasterSendsNothing) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.assign();
  const ShardState state = state_of(1.0F);
  master.send(wire::Load{0, {0, 4}, wire::contents_of(state, {0, 4})});
  ASSERT_TRUE(std::holds_alternative<wire::Wanted>(master.next()));
  EXPECT_TRUE(master.hears_ping());
  wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(state),
                    [&](const wire::Envelope& piece) { master.send(piece); });
  EXPECT_TRUE(std::holds_alternative<wire::Done>(master.next()));
}

TEST(Loads, MustHaveTheAnnouncedHash) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.assign();
  master.send(wire::Load{0, {0, 4}, wire::contents_of(state_of(1.0F), {0, 4})});
  ASSERT_TRUE(std::holds_alternative<wire::Wanted>(master.next()));
  const ShardState other = state_of(2.0F);
  wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(other),
                    [&](const wire::Envelope& each) { master.send(each); });
  EXPECT_THAT(master.failure(), HasSubstr("do not have the hash that the master announced"));
}

}  // namespace
}  // namespace convoy
