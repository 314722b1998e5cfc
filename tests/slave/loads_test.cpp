// States that a master has a slave load: what of them the slave has had does not travel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/fake_master.hpp"
#include "wire/stream.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// Sends the state as far as the slave wants it; how many blocks that were.
std::size_t load(FakeMaster& master, const ShardState& state) {
  master.send(wire::Load{0, {0, 4}, wire::contents_of(state, {0, 4})});
  const wire::Message answer = master.next();
  const auto* wanted = std::get_if<wire::Wanted>(&answer);
  if (wanted == nullptr) {
    ADD_FAILURE() << wire::name_of(answer) << " where Wanted was due";
    return 0;
  }
  if (!wanted->blocks.empty()) {
    wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(state),
                      [&](const wire::Envelope& piece) { master.send(piece); });
  }
  EXPECT_TRUE(std::holds_alternative<wire::Done>(master.next()));
  return wanted->blocks.size();
}

ShardState state_of(float value) {
  ShardState state = zero_state(stage(), 4);
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
  EXPECT_EQ(load(master, state_of(1.0F)), 0U) << "which it has had";
  master.send(wire::Snapshot{0, {0, 4}});
  const wire::Envelope piece = master.next_envelope();
  EXPECT_EQ(piece.payload.floats()[0], 1.0F) << "and has again";
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
  EXPECT_EQ(load(master, state_of(1.0F)), 1U) << "three states of its shard are all that it keeps";
}

TEST(Loads, MustBeWhatWasAnnounced) {
  FakeMaster master;
  const SlaveThread slave(master.endpoint());
  ASSERT_TRUE(master.welcome());
  master.assign();
  master.send(wire::Load{0, {0, 4}, wire::contents_of(state_of(1.0F), {0, 4})});
  ASSERT_TRUE(std::holds_alternative<wire::Wanted>(master.next()));
  const ShardState other = state_of(2.0F);
  wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(other),
                    [&](const wire::Envelope& each) { master.send(each); });
  EXPECT_THAT(master.failure(), HasSubstr("is not what was announced"));
}

}  // namespace
}  // namespace convoy
