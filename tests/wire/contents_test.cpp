#include "wire/contents.hpp"

#include <gtest/gtest.h>

#include <set>

#include "wire/stream.hpp"

namespace convoy::wire {
namespace {

Stage stage() {
  return {.name = "conv",
          .channels = 2,
          .height = 8,
          .width = 8,
          .conv = {.filters = 100, .kernel_h = 3, .kernel_w = 3},
          .after = {}};
}

/// A state in which no two values are equal.
ShardState numbered(int filters) {
  ShardState state = zero_state(stage(), filters);
  float next = 0.0F;
  for_each_tensor(state, [&](Tensor& tensor) {
    for (float& value : tensor.span()) value = next += 1.0F;
  });
  return state;
}

TEST(Contents, AreOfBlocksThatEndAtMultiplesOfSixteen) {
  EXPECT_EQ(state_blocks({0, 16}), (std::vector<FilterRange>{{0, 16}}));
  EXPECT_EQ(state_blocks({5, 40}), (std::vector<FilterRange>{{5, 11}, {16, 16}, {32, 13}}));
  EXPECT_EQ(state_blocks({17, 3}), (std::vector<FilterRange>{{17, 3}}));
}

TEST(Contents, OfABlockAreThoseOfAnyStateWithIt) {
  const ShardState whole = numbered(100);
  const FilterRange shard{10, 60};
  const std::vector<Content> all = contents_of(whole, {0, 100});
  const std::vector<Content> some = contents_of(slice(whole, shard), shard);
  ASSERT_EQ(some.size(), 5U);  // filters 10 to 15, three whole blocks, filters 64 to 69
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(some[i], all[i]);
  EXPECT_EQ(std::set<Content>(all.begin(), all.end()).size(), all.size()) << "no two blocks have the same hash";
}

TEST(Contents, ChangeWithEveryValue) {
  const ShardState state = numbered(3);
  const Content before = contents_of(state, {0, 3})[0];
  std::set<Content> seen{before};
  ShardState changed = state;
  for_each_tensor(changed, [&](Tensor& tensor) {
    for (float& value : tensor.span()) {
      const float old = std::exchange(value, -1.0F);
      EXPECT_TRUE(seen.insert(contents_of(changed, {0, 3})[0]).second);
      value = old;
    }
  });
  EXPECT_EQ(contents_of(changed, {0, 3})[0], before);
}

/// Pins the hash, because other releases compare it.
TEST(Contents, AreXXH3) {
  const std::vector<float> values{1.0F, 2.0F, 3.0F};
  const Content whole = content_of({values});
  EXPECT_EQ(content_of({std::span(values).first(1), std::span(values).subspan(1)}), whole)
      << "the hash does not depend on how the values are cut into spans";
  EXPECT_EQ(to_text(whole), "2c80bda405a7fdf62ca51b47fa70740e");
}

TEST(Contents, BlocksGoWhereTheyCameFrom) {
  const FilterRange filters{10, 60};
  const ShardState state = numbered(filters.count);
  ShardState again = zero_state(stage(), filters.count);
  for (const FilterRange& block : state_blocks(filters)) {
    set_block(block_of(state, filters, block), block, filters, again);
  }
  EXPECT_EQ(contents_of(again, filters), contents_of(state, filters));
}

}  // namespace
}  // namespace convoy::wire
