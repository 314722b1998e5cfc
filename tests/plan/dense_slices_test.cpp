// Tests the shares of dense layers that are cut along their inputs.

#include "plan/dense_slices.hpp"

#include <gtest/gtest.h>

#include "nets/graph/dense_slices.hpp"
#include "plan/choose.hpp"
#include "plan/planner.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

std::vector<Stage> sliced_trunk(const std::string& name, int count) {
  return slice_dense(cut(read_net(source_folder() + "/nets/" + name)), count).value().cut.trunk;
}

/// Machines with speeds in GFLOP/s and links of 100 MB/s.
std::vector<MemberProfile> machines(const std::vector<Stage>& trunk, int batch, const std::vector<double>& gflops) {
  std::vector<MemberProfile> members;
  for (const double speed : gflops) {
    MemberProfile& member = members.emplace_back(
        MemberProfile{.name = fmt::format("m{}", members.size()), .stages = {}, .link = {1e8, 1e8}, .latency = 1e-4});
    for (std::size_t s = 0; s < trunk.size(); ++s) {
      const int all = trunk[s].conv.filters;
      member.stages.push_back(
          {timing_at(speed, member.host.memory, trunk[s], all, batch, needs_input_gradient(trunk, s))});
    }
  }
  return members;
}

/// Returns the member that holds all filters of a stage, or -1 if several hold them.
int holder(const Plan& plan, std::size_t stage) {
  const std::vector<Tile> tiles = tiles_of(plan.stages[stage]);
  return tiles.size() == 1 ? tiles[0].member : -1;
}

TEST(DenseSlicesOfAPlan, AreFoundByWhatTheyRead) {
  const std::vector<Stage> trunk = sliced_trunk("cifar10-50-500.yaml", 4);
  EXPECT_EQ(first_dense_slice(trunk), 2U);
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    EXPECT_EQ(is_dense_slice(trunk, s), s >= 2 && s < 6) << s;
    EXPECT_EQ(adds_few_slices(trunk, s, 64), s == 6) << s;
  }
  EXPECT_FALSE(adds_few_slices(trunk, 6, 2000));
  const std::vector<Stage> whole = cut(read_net(source_folder() + "/nets/googlenet.yaml")).trunk;
  EXPECT_EQ(first_dense_slice(whole), whole.size());
}

TEST(DenseSlicesOfAPlan, AreWholeWhereTheirChannelsAre) {
  const std::vector<Stage> trunk = sliced_trunk("cifar10-50-500.yaml", 16);
  const Plan plan = make_plan(trunk, 64, machines(trunk, 64, {100, 100, 200, 400}));
  EXPECT_NO_THROW(validate(plan, trunk));
  // The second stage is shared as 1 : 1 : 2 : 4.
  const std::vector<int> expected{0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
  for (std::size_t slice = 0; slice < 16; ++slice) EXPECT_EQ(holder(plan, 2 + slice), expected[slice]) << slice;
  EXPECT_EQ(holder(plan, 18), 3) << "few sums are added by one member";
  const Plan by_shares = proportional_plan(trunk, 64, {"a", "b", "c", "d"}, {1, 1, 2, 4});
  EXPECT_NO_THROW(validate(by_shares, trunk));
  for (std::size_t slice = 0; slice < 16; ++slice) EXPECT_EQ(holder(by_shares, 2 + slice), expected[slice]) << slice;
}

TEST(DenseSlicesOfAPlan, WithManySumsAreAddedByAll) {
  const std::vector<Stage> trunk = sliced_trunk("alexnet.yaml", 4);
  const Plan plan = make_plan(trunk, 64, machines(trunk, 64, {100, 100, 100, 100}));
  EXPECT_EQ(tiles_of(plan.stages.back()).size(), 4U);
}

TEST(DenseSlicesOfAPlan, GoToMembersWithRoom) {
  const std::vector<Stage> trunk = sliced_trunk("alexnet.yaml", 2);
  std::vector<MemberProfile> members = machines(trunk, 8, {100, 100, 100});
  for (MemberProfile& member : members) member.memory = std::size_t{4} << 30U;
  const Plan roomy = make_plan(trunk, 8, members);
  EXPECT_EQ(holder(roomy, trunk.size() - 3), 0);
  members[0].memory = std::size_t{100} << 20U;
  const Plan plan = make_plan(trunk, 8, members);
  EXPECT_TRUE(fits_in_memory(plan, trunk, make_task_graph(plan, trunk), members));
  EXPECT_NE(holder(plan, trunk.size() - 3), 0);
  for (MemberProfile& member : members) member.memory = std::size_t{100} << 20U;
  EXPECT_THROW(make_plan(trunk, 8, members), Error);
}

TEST(DenseSlicesOfAPlan, SendSumsInsteadOfMaps) {
  const Cut whole = cut(read_net(source_folder() + "/nets/cifar10-50-500.yaml"));
  const std::vector<Stage> trunk = slice_dense(whole, 4).value().cut.trunk;
  const std::vector<double> speeds(4, 240.0);
  const Choice on_master = choose_plan(whole.trunk, 64, machines(whole.trunk, 64, speeds), {}, {});
  const Choice on_members = choose_plan(trunk, 64, machines(trunk, 64, speeds), {}, {});
  EXPECT_LT(on_members.predicted.seconds, 0.85 * on_master.predicted.seconds);
  EXPECT_LT(on_members.predicted.nodes.back().bytes_in, 0.01 * on_master.predicted.nodes.back().bytes_in);
}

}  // namespace
}  // namespace convoy
