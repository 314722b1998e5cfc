// Tests the memory that plans count on, on a net of two convolutions, for two members that share equally.

#include "plan/node_memory.hpp"

#include <gtest/gtest.h>

#include "core/shard_state.hpp"
#include "plan/planner.hpp"

namespace convoy {
namespace {

constexpr int kSamples = 8;
constexpr std::size_t kFloat = sizeof(float);
// Values of a sample: the images, and the maps of the stages.
constexpr std::size_t kPixels = 3 * 10 * 10;
constexpr std::size_t kFirstMaps = 4 * 10 * 10;
constexpr std::size_t kSecondMaps = 6 * 10 * 10;
// Weights and biases of the stages.
constexpr std::size_t kParameters = 4 * 3 * 9 + 4 + 6 * 4 * 9 + 6;

std::vector<Stage> two_stages() {
  const auto conv = [](int filters) {
    return Convolution{.filters = filters, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
  };
  return {{.name = "conv1", .channels = 3, .height = 10, .width = 10, .conv = conv(4)},
          {.name = "conv2", .channels = 4, .height = 10, .width = 10, .conv = conv(6)}};
}

Plan shared(Exchange exchange, bool by_samples) {
  const std::vector<Stage> trunk = two_stages();
  Plan plan = proportional_plan(trunk, kSamples, {"a", "b"}, {1.0, 1.0});
  plan.exchange = exchange;
  if (by_samples) cut_by_samples(plan, trunk, 2, {1.0, 1.0});
  return plan;
}

std::size_t snapshot_of(int first, int second) {
  return state_bytes(two_stages()[0], first) + state_bytes(two_stages()[1], second);
}

std::size_t on_host(const Plan& plan, int node) {
  const std::vector<Stage> trunk = two_stages();
  return host_bytes(plan, trunk, make_task_graph(plan, trunk), node);
}

TEST(HostBytes, OfAMemberThatSharesSamples) {
  constexpr std::size_t kHalf = kSamples / 2;
  const std::size_t images = kHalf * kPixels;                       // a byte for each value
  const std::size_t output = kHalf * kSecondMaps * kFloat;          // goes to the master
  const std::size_t gradient = kHalf * kSecondMaps * kFloat;        // comes from the master
  const std::size_t sums = 2 * kParameters * kFloat;                // its own gradients, and the sums
  const std::size_t weights = kParameters * kFloat;                 // halves of gradients or of sums, out and in
  const std::size_t on_the_way = 2 * kHalf * kSecondMaps * kFloat;  // the maps of the second stage and their gradient
  EXPECT_EQ(on_host(shared(Exchange::ring, true), 0),
            images + output + gradient + sums + weights + on_the_way + snapshot_of(2, 3));
}

TEST(HostBytes, OfAMemberThatSharesFilters) {
  const std::size_t images = kSamples * kPixels;
  const std::size_t first = kSamples * kFirstMaps * kFloat;  // all channels, which the second stage reads
  const std::size_t second = kSamples * kSecondMaps / 2 * kFloat;
  const std::size_t gradients = first / 2 + second;
  const std::size_t part = first;
  // The maps of the first stage, out and in, and its gradient's addends.
  const std::size_t on_the_way = std::max(4 * first / 2, 2 * second);
  EXPECT_EQ(on_host(shared(Exchange::ring, false), 1),
            images + first + second + gradients + part + on_the_way + snapshot_of(2, 3));
}

TEST(HostBytes, OfOneMachineAreFew) {
  const std::vector<Stage> trunk = two_stages();
  const Plan alone = proportional_plan(trunk, kSamples, {"master"}, {1.0});
  EXPECT_EQ(on_host(alone, 0), kSamples * (kPixels + kSecondMaps * kFloat) + snapshot_of(4, 6));
}

TEST(HostBytes, FallWithTheWire) {
  Plan plan = shared(Exchange::ring, true);
  const std::size_t fp32 = on_host(plan, 0);
  plan.wire = NumberType::bf16;
  const std::size_t halves = (kParameters + kSamples * kSecondMaps) * kFloat / 2;
  EXPECT_EQ(on_host(plan, 0), fp32 - halves);
}

TEST(SharesOfFilters, LeaveRoomForValuesOnTheirWay) {
  const std::vector<Stage> trunk = two_stages();
  std::vector<MemberProfile> members;
  for (const std::string name : {"a", "b"}) {
    members.push_back({.name = name, .stages = {{{4, 0.4, 0.0, 0.4}}, {{6, 0.6, 0.6, 0.6}}}});
  }
  const auto shares = [&] { return *shares_of_filters(trunk, kSamples, members, Exchange::ring, NumberType::fp32); };
  const auto taken = [&](Plan plan) {
    plan.exchange = Exchange::ring;
    return memory_taken(plan, trunk, make_task_graph(plan, trunk), 0, {.memory_factor = 1.0});
  };
  const Plan roomy = shares();
  members[0].memory_factor = 1.0;
  members[0].memory = taken(roomy) / 10 * 9;
  const Plan plan = shares();
  EXPECT_LE(taken(plan), members[0].memory);
  EXPECT_GT(own_filters(plan, 1, 0).count, 0);
  EXPECT_LT(own_filters(plan, 1, 0).count, own_filters(roomy, 1, 0).count);
}

TEST(ShardsBytes, CountFiltersInWholeBlocks) {
  const std::vector<Stage> trunk = two_stages();
  const Stage& stage = trunk[1];
  EXPECT_EQ(shard_bytes(stage, 3, kSamples, true, 4), shard_bytes(stage, 4, kSamples, true));
  EXPECT_EQ(shard_bytes(stage, 4, kSamples, true, 4), shard_bytes(stage, 4, kSamples, true));
  EXPECT_EQ(shard_bytes(stage, 0, kSamples, true, 4), 0U);
  const Plan plan = shared(Exchange::ring, false);
  const TaskGraph training = make_task_graph(plan, trunk);
  EXPECT_EQ(shards_bytes(plan, trunk, training, 0, 4),
            shard_bytes(trunk[0], 4, kSamples, false) + shard_bytes(trunk[1], 4, kSamples, true));
  EXPECT_EQ(memory_taken(plan, trunk, training, 0, {.filter_block = 4}), shards_bytes(plan, trunk, training, 0, 4));
}

TEST(ShardsBytes, AreThoseOfTheTilesAndOfStagesThatAllCompute) {
  std::vector<Stage> trunk = two_stages();
  const Plan by_filters = shared(Exchange::ring, false);
  const std::size_t of_halves = shard_bytes(trunk[0], 2, kSamples, false) + shard_bytes(trunk[1], 3, kSamples, true);
  EXPECT_EQ(shards_bytes(by_filters, trunk, make_task_graph(by_filters, trunk), 0), of_halves);

  // Each member computes the maps that it reads of a stage without parameters: those of its samples.
  trunk.insert(
      trunk.begin() + 1,
      {.name = "pool", .channels = 4, .height = 10, .width = 10, .conv = {.filters = 4}, .kind = StageKind::channels});
  Plan plan = proportional_plan(trunk, kSamples, {"a", "b"}, {1.0, 1.0});
  plan.exchange = Exchange::ring;
  ASSERT_TRUE(cut_by_samples(plan, trunk, 3, {1.0, 1.0}));
  std::size_t of_samples = shard_bytes(trunk[0], 4, kSamples / 2, false);
  for (std::size_t s = 1; s < 3; ++s) of_samples += shard_bytes(trunk[s], trunk[s].conv.filters, kSamples / 2, true);
  EXPECT_EQ(shards_bytes(plan, trunk, make_task_graph(plan, trunk), 1), of_samples);
}

}  // namespace
}  // namespace convoy
