#include "plan/plan.hpp"
#include "plan/planner.hpp"
#include "plan/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>

#include "nets/graph/net.hpp"
#include "tests/support/graph_net.hpp"

namespace convoy {
namespace {

TEST(PlanMembers, TheMasterIsKnownByItsNameAndComesLast) {
  EXPECT_TRUE(is_master(kMasterName));
  EXPECT_FALSE(is_master("a"));
  EXPECT_TRUE(has_master({.members = {"a", kMasterName}}));
  EXPECT_FALSE(has_master({.members = {"a", "b"}}));
  EXPECT_FALSE(has_master({}));
  EXPECT_TRUE(is_master_alone({.members = {kMasterName}}));
  EXPECT_FALSE(is_master_alone({.members = {"a"}}));
  EXPECT_FALSE(is_master_alone({.members = {"a", kMasterName}}));
  EXPECT_FALSE(is_master_alone({}));
}

using testing::HasSubstr;

Stage make_stage(int channels, int filters, int extent = 16) {
  return {.name = fmt::format("conv{}", filters),
          .channels = channels,
          .height = extent,
          .width = extent,
          .conv = {.filters = filters, .kernel_h = 5, .kernel_w = 5, .pad = {2, 2, 2, 2}},
          .after = {Activation::relu, Pooling{}}};
}

/// A member whose time for f filters is fixed + slope * f, timed at three counts.
MemberProfile linear(const std::string& name, const std::vector<Stage>& trunk, double fixed, double slope) {
  MemberProfile member{.name = name};
  for (const Stage& stage : trunk) {
    const int whole = stage.conv.filters;
    std::vector<Timing> timings;
    for (const int filters : {std::max(1, whole / 8), std::max(2, whole / 2), std::max(3, whole)}) {
      timings.push_back({filters, fixed + slope * filters});
    }
    member.stages.push_back(timings);
  }
  return member;
}

std::vector<int> counts(const Plan& plan, std::size_t stage) {
  std::vector<int> filters(plan.members.size());
  for (const Tile& tile : tiles_of(plan.stages[stage])) {
    filters[tile.member] = tile.filters.count;
  }
  return filters;
}

double slowest(const std::vector<MemberProfile>& members, std::size_t stage, const std::vector<int>& filters) {
  double most = 0.0;
  for (std::size_t m = 0; m < members.size(); ++m) {
    most = std::max(most, predict_seconds(members[m], stage, filters[m]));
  }
  return most;
}

/// The shortest time of the slower of two members, over all splits of the filters of the first stage.
double best_of_two(const std::vector<MemberProfile>& members, int filters) {
  double best = std::numeric_limits<double>::infinity();
  for (int first = 0; first <= filters; ++first) best = std::min(best, slowest(members, 0, {first, filters - first}));
  return best;
}

TEST(Proportional, FollowsSpeedsAndCoversEveryFilter) {
  for (const int filters : {1, 2, 5, 7, 50, 1500}) {
    for (const int members : {1, 2, 3, 7}) {
      const std::vector<Stage> trunk{make_stage(3, filters)};
      std::vector<std::string> names;
      std::vector<double> speeds;
      for (int m = 0; m < members; ++m) {
        names.push_back(std::to_string(m));
        speeds.push_back(m + 1.0);
      }
      const Plan plan = proportional_plan(trunk, 4, names, speeds);
      EXPECT_NO_THROW(validate(plan, trunk)) << filters << " filters, " << members << " members";
      const std::vector<int> got = counts(plan, 0);
      const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
      for (int m = 0; m < members; ++m) {
        EXPECT_NEAR(got[m], filters * speeds[m] / sum, 1.0);
      }
    }
  }
}

TEST(Proportional, LargestRemainder) {
  const std::vector<Stage> trunk{make_stage(3, 10)};
  EXPECT_EQ(counts(proportional_plan(trunk, 1, {"a", "b", "c"}, {1.0, 1.0, 1.0}), 0), (std::vector<int>{4, 3, 3}));
  EXPECT_EQ(counts(proportional_plan(trunk, 1, {"a", "b"}, {0.0, 5.0}), 0), (std::vector<int>{0, 10}));
}

TEST(Planner, SharesFollowMeasuredSpeed) {
  const std::vector<Stage> trunk{make_stage(3, 600), make_stage(600, 1200)};
  const std::vector<MemberProfile> members{linear("slow", trunk, 0.0, 3.0), linear("fast", trunk, 0.0, 1.0)};
  const Plan plan = make_plan(trunk, 8, members);
  validate(plan, trunk);
  EXPECT_EQ(counts(plan, 0), (std::vector<int>{150, 450}));
  EXPECT_EQ(counts(plan, 1), (std::vector<int>{300, 900}));
}

TEST(Planner, LeavesOutWhoOnlySlowsTheConvoy) {
  const std::vector<Stage> trunk{make_stage(3, 40)};
  // The second member's fixed cost exceeds the time that the first member needs for all filters.
  const std::vector<MemberProfile> members{linear("good", trunk, 0.0, 1.0), linear("useless", trunk, 100.0, 1.0)};
  EXPECT_EQ(counts(make_plan(trunk, 8, members), 0), (std::vector<int>{40, 0}));
}

TEST(Planner, IsOptimalAgainstEverySplit) {
  const std::vector<Stage> trunk{make_stage(3, 23)};
  for (const int block : {1, 4, 8}) {
    std::vector<MemberProfile> members{linear("a", trunk, 2.0, 1.3), linear("b", trunk, 0.5, 2.1),
                                       linear("c", trunk, 5.0, 0.7)};
    for (MemberProfile& member : members) member.filter_block = block;
    double best = 1e9;
    for (int a = 0; a <= 23; ++a) {
      for (int b = 0; a + b <= 23; ++b) best = std::min(best, slowest(members, 0, {a, b, 23 - a - b}));
    }
    EXPECT_NEAR(slowest(members, 0, counts(make_plan(trunk, 1, members), 0)), best, 1e-9) << "block " << block;
  }
}

TEST(Planner, ChargesWholeVectorBlocks) {
  MemberProfile member{.name = "a", .filter_block = 16, .stages = {{{16, 1.0}, {32, 2.0}, {64, 4.0}}}};
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 1), 1.0);
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 17), 2.0);
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 33), 3.0);
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 0), 0.0);
}

TEST(Planner, PredictsAlongTheTimings) {
  const MemberProfile member{.name = "a", .stages = {{{10, 2.0}, {20, 3.0}, {40, 7.0}}}};
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 5), 1.5);
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 15), 2.5);
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 30), 5.0);
  EXPECT_DOUBLE_EQ(predict_seconds(member, 0, 50), 9.0);
  const MemberProfile steep{.name = "b", .stages = {{{10, 1.0}, {20, 5.0}}}};
  EXPECT_DOUBLE_EQ(predict_seconds(steep, 0, 5), 0.5) << "a prediction is never below zero";
  // 13 thirteenths of this timing are rounded to more than the timing.
  const double odd = 0.8474337369372327;
  const MemberProfile uneven{.name = "c", .stages = {{{13, odd}, {20, 5.0}}}};
  EXPECT_EQ(predict_seconds(uneven, 0, 13), odd);
}

TEST(Planner, RespectsMemory) {
  const std::vector<Stage> trunk{make_stage(3, 64), make_stage(64, 256)};
  std::vector<MemberProfile> members{linear("fast", trunk, 0.0, 1.0), linear("slow", trunk, 0.0, 10.0)};
  const auto bytes_of = [&](const Plan& plan, std::size_t member) {
    return shard_bytes(trunk[0], counts(plan, 0)[member], 8, false) +
           shard_bytes(trunk[1], counts(plan, 1)[member], 8, true);
  };
  const std::size_t unbounded = bytes_of(make_plan(trunk, 8, members), 0);
  members[0].memory = unbounded * 6 / 10;
  const Plan plan = make_plan(trunk, 8, members);
  validate(plan, trunk);
  EXPECT_LE(bytes_of(plan, 0), members[0].memory);
  EXPECT_GT(bytes_of(plan, 0), members[0].memory / 2) << "the fast member's memory is used";
}

TEST(Planner, RefusesWhatDoesNotFitWithNumbers) {
  const std::vector<Stage> trunk{make_stage(3, 64)};
  std::vector<MemberProfile> members{linear("small", trunk, 0.0, 1.0)};
  members[0].memory = 1000;
  try {
    make_plan(trunk, 64, members);
    FAIL() << "a net of megabytes cannot fit into 1000 bytes";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("small 0 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("smaller --batch"));
  }
}

TEST(Planner, NoisyTimingsStillGiveTheBestPlan) {
  const std::vector<Stage> trunk{make_stage(3, 64)};
  const std::vector<MemberProfile> members{{.name = "a", .stages = {{{16, 3.0}, {32, 1.0}, {64, 2.0}}}},
                                           {.name = "b", .stages = {{{16, 1.0}, {32, 1.0}, {64, 1.0}}}}};
  const Plan plan = make_plan(trunk, 4, members);
  validate(plan, trunk);
  EXPECT_NEAR(slowest(members, 0, counts(plan, 0)), best_of_two(members, 64), 1e-9);
}

/// The timings are those of a disturbed machine, scaled as a run scales them. Once they are made monotone, they are
/// equal but for rounding.
TEST(Planner, TimingsThatAreEqualButForRoundingGiveEqualShares) {
  const std::vector<Stage> trunk{make_stage(3, 50)};
  for (int i = 1; i <= 1000; ++i) {
    const double scale = 0.001 * i;
    MemberProfile member{.name = "a", .filter_block = 16, .stages = {{}}};
    member.stages[0] = {{16, scale * 0.00048136, scale * 0.0001882, scale * 0.000352608, scale * 1.772e-06},
                        {25, scale * 0.00537952, scale * 0.002803128, scale * 0.00559308, scale * 2.183e-06},
                        {50, scale * 0.001979652, scale * 0.00077356, scale * 0.00135868, scale * 3.034e-06}};
    for (const int members : {1, 2}) {
      const std::vector<MemberProfile> all(static_cast<std::size_t>(members), member);
      const Plan plan = make_plan(trunk, 64, all);
      ASSERT_NO_THROW(validate(plan, trunk)) << "scale " << scale << ", " << members << " members";
      const auto [least, most] = std::ranges::minmax(counts(plan, 0));
      ASSERT_LT(most - least, 2 * member.filter_block)
          << "equal members get equal shares, to a block each; scale " << scale;
    }
  }
}

/// A filter of the second stage reads more channels than one of the first.
TEST(WorkShares, CountOperationsInsteadOfFilters) {
  const std::vector<Stage> trunk{make_stage(3, 10), make_stage(10, 3)};
  const Plan plan{
      .batch = 4, .members = {"a", "b", "idle"}, .stages = {stage_plan({10, 0, 0}, 4), stage_plan({0, 3, 0}, 4)}};
  const std::vector<double> shares = work_shares(trunk, plan);
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_DOUBLE_EQ(shares[0], 0.5);
  EXPECT_DOUBLE_EQ(shares[1], 0.5);
  EXPECT_EQ(shares[2], 0.0);
}

TEST(PlanJson, RoundTrip) {
  const std::vector<Stage> trunk{make_stage(3, 10), make_stage(10, 7)};
  Plan plan = proportional_plan(trunk, 32, {"a", "b", "c"}, {1.0, 2.0, 0.0});
  plan.early_sums = 1;
  EXPECT_EQ(plan_from_json(to_json(plan), "plan.json"), plan);
}

struct BadPlan {
  std::string name;
  std::string json;
  std::string expected;
};

void PrintTo(const BadPlan& c, std::ostream* out) { *out << c.name; }

class BadPlans : public testing::TestWithParam<BadPlan> {};

TEST_P(BadPlans, AreRefused) {
  const std::vector<Stage> trunk{make_stage(3, 10)};
  try {
    validate(plan_from_json(GetParam().json, "p.json"), trunk);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().expected));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadPlans,
    testing::Values(
        BadPlan{"Deep", R"({"batch": 1, "members": )" + std::string(80000, '[') + std::string(80000, ']') + "}",
                "p.json: it is nested deeper than 16 levels"},
        BadPlan{"Twice", R"({"batch": 1, "batch": 2})", "p.json: its field 'batch' comes twice"},
        BadPlan{"NumberTooLarge", R"({"batch": 1e999})", "one of its numbers is too large"},
        BadPlan{"NotJson", "{", "p.json: the file is not a plan"}, BadPlan{"Empty", "{}", "batch"},
        BadPlan{"WrongType", R"({"batch": "x", "members": [], "stages": []})",
                "p.json: batch must be a whole number, but is string"},
        BadPlan{"HugeBatch", R"({"batch": 333333333333333333333333, "members": []})", "a fraction, or too large"},
        BadPlan{"LargeBatch", R"({"batch": 4294967296, "members": []})", "expected 0 to 2147483647"},
        BadPlan{"Batch", R"({"batch": 0, "members": ["a"], "stages": [{"shards": []}]})", "batch 0"},
        BadPlan{"StageCount", R"({"batch": 1, "members": ["a"], "stages": []})", "0 stages, but the net has 1"},
        BadPlan{"Gap",
                R"({"batch": 1, "members": ["a"], "stages": [{"shards": [{"member": 0, "first": 1, "filters": 9}]}]})",
                "leave a gap"},
        BadPlan{"Short",
                R"({"batch": 1, "members": ["a"], "stages": [{"shards": [{"member": 0, "first": 0, "filters": 9}]}]})",
                "assigns 9"},
        BadPlan{"Long",
                R"({"batch": 1, "members": ["a"], "stages": [{"shards": [{"member": 0, "first": 0, "filters": 11}]}]})",
                "assigns more"},
        BadPlan{"Member",
                R"({"batch": 1, "members": ["a"], "stages": [{"shards": [{"member": 1, "first": 0, "filters": 10}]}]})",
                "names member 1"},
        BadPlan{"EarlySums",
                R"({"batch": 1, "members": ["a"], "early_sums": 2,
                    "stages": [{"shards": [{"member": 0, "first": 0, "filters": 10}]}]})",
                "\"early_sums\" is 2; expected a number of stages from 0 to 1"},
        BadPlan{
            "Negative",
            R"({"batch": 1, "members": ["a"], "stages": [{"shards": [{"member": 0, "first": 0, "filters": -10}]}]})",
            "filters is -10"}),
    [](const auto& info) { return info.param.name; });

TEST(Predictions, OfWhatTakesNoTimeAreZero) {
  const MemberProfile member{.name = "a", .stages = {{{.filters = 4}, {.filters = 8}}}};
  const Timing passes = predict_passes(member, 0, 6);
  EXPECT_EQ(passes.filters, 6);
  EXPECT_EQ(passes.seconds(), 0.0);
}

/// A share of a norm's channels, or of the halves of a PReLU, needs about the same channels of what comes before it.
TEST(Plans, CutNormsAndSlopesLikeTheStagesBeforeThem) {
  const std::vector<Stage> trunk = cut(parse_net(kNormsNet, "norms.yaml")).trunk;
  for (const std::size_t s : {1, 4, 6, 7, 10}) EXPECT_FALSE(better_replicated(trunk, s)) << s << ", " << trunk[s].name;
  EXPECT_TRUE(better_replicated(trunk, 17)) << "the maps of an upsampling are larger than those that it reads";
  const Plan plan = proportional_plan(trunk, 6, {"a", "b"}, {2.0, 1.0});
  validate(plan, trunk);
  EXPECT_EQ(tiles_of(plan.stages[0]), tiles_of(plan.stages[1]));
  EXPECT_EQ(tiles_of(plan.stages[1]), tiles_of(plan.stages[2]));
}

/// Stages whose maps are added have equal shares. A stage that is cheaper to compute than to send has no shares.
TEST(Plans, TieStagesThatAdd) {
  const std::vector<Stage> trunk = cut(parse_net(kGraphNet, "graph.yaml")).trunk;
  MemberProfile fast{.name = "fast", .stages = {}};
  MemberProfile slow{.name = "slow", .stages = {}};
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    // The speeds differ from stage to stage, so that each stage by itself would have other shares.
    const int all = trunk[s].conv.filters;
    fast.stages.push_back({{.filters = 1, .forward = 0.001 * (1.0 + static_cast<double>(s % 3))},
                           {.filters = all, .forward = 0.01 * (1.0 + static_cast<double>(s % 3))}});
    slow.stages.push_back({{.filters = 1, .forward = 0.002}, {.filters = all, .forward = 0.03}});
  }
  const Plan plan = make_plan(trunk, 4, {fast, slow});
  validate(plan, trunk);
  std::map<std::string, std::vector<Tile>> shards;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    shards[trunk[s].name] = tiles_of(plan.stages[s]);
    EXPECT_EQ(everywhere(plan.stages[s]), better_replicated(trunk, s)) << trunk[s].name;
  }
  EXPECT_EQ(shards.at("c1"), shards.at("c2"));
  EXPECT_EQ(shards.at("c2"), shards.at("c3"));
  EXPECT_EQ(shards.at("b1"), shards.at("b_sum"));
  EXPECT_TRUE(shards.at("d3").empty()) << "d3 is a pooling branch of maps that every member has";
}

}  // namespace
}  // namespace convoy
