// Tests plans that cut stages along samples, and their task graphs, tile by tile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "core/error.hpp"
#include "plan/choose.hpp"
#include "plan/task_graph.hpp"
#include "tests/plan/tiled_plans.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// Cells (channel, sample) of a micro-batch's maps at a node, by (stage, micro-batch, node).
using Cells = std::map<std::tuple<int, int, int>, std::set<std::pair<int, int>>>;

void put(Cells& cells, int stage, int micro_batch, int node, const Box& box) {
  auto& all = cells[{stage, micro_batch, node}];
  for (int c = box.channels.first; c < box.channels.first + box.channels.count; ++c) {
    for (int n = box.samples.first; n < box.samples.first + box.samples.count; ++n) all.insert({c, n});
  }
}

bool covers(Cells& cells, int stage, int micro_batch, int node, const Box& box) {
  const auto& all = cells[{stage, micro_batch, node}];
  for (int c = box.channels.first; c < box.channels.first + box.channels.count; ++c) {
    for (int n = box.samples.first; n < box.samples.first + box.samples.count; ++n) {
      if (!all.contains({c, n})) return false;
    }
  }
  return true;
}

void expect_maps_brought(const Plan& plan, const std::vector<Stage>& trunk) {
  const TaskGraph graph = make_task_graph(plan, trunk);
  const SampleRange all{0, micro_batch_size(plan)};
  Cells cells;
  for (int m = 0; m < plan.micro_batches; ++m)
    put(cells, Source::kImages, m, graph.master, {{0, trunk[0].channels}, all});
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    const Box box{task.filters, task.samples};
    for (const int before : task.after) {
      const Task& earlier = graph.tasks[before];
      EXPECT_LT(before, static_cast<int>(i));
      EXPECT_EQ(earlier.kind == TaskKind::send ? earlier.to : earlier.node, task.node);
    }
    if (task.kind == TaskKind::send && task.cargo == Cargo::maps) {
      EXPECT_TRUE(covers(cells, task.stage, task.micro_batch, task.node, box)) << "task " << i;
      put(cells, task.stage, task.micro_batch, task.to, box);
    } else if (task.kind == TaskKind::forward) {
      for (const Read& read : reads_for(trunk, static_cast<std::size_t>(task.stage), task.filters)) {
        if (read.stage == Source::kZeros) continue;
        EXPECT_TRUE(covers(cells, read.stage, task.micro_batch, task.node, {read.channels, task.samples}))
            << "node " << task.node << " computes " << trunk[task.stage].name;
      }
      put(cells, task.stage, task.micro_batch, task.node, box);
    } else if (task.kind == TaskKind::head) {
      for (const int output : outputs_of(trunk)) {
        const FilterRange filters{0, trunk[output].conv.filters};
        EXPECT_TRUE(covers(cells, output, task.micro_batch, graph.master, {filters, all}));
      }
    }
  }
}

void expect_gradients_brought(const Plan& plan, const std::vector<Stage>& trunk) {
  Cells cells;
  const TaskGraph graph = make_task_graph(plan, trunk);
  const std::vector<int> outputs = outputs_of(trunk);
  for (const Task& task : graph.tasks) {
    const Box box{task.filters, task.samples};
    const bool sent = task.kind == TaskKind::send && task.cargo == Cargo::gradient;
    if (sent || task.kind == TaskKind::sum) put(cells, task.stage, task.micro_batch, sent ? task.to : task.node, box);
    if (task.kind != TaskKind::backward_input || everywhere(plan.stages[task.stage])) continue;
    const bool of_head = task.node == graph.master && std::ranges::find(outputs, task.stage) != outputs.end();
    EXPECT_TRUE(of_head || covers(cells, task.stage, task.micro_batch, task.node, box));
  }
}

/// Every owner gets the gradients of every row for each of its filters once, in the order of the rows. Every other
/// holder gets the sums from the owner before it updates, or the new weights where one of the two is unequal.
void expect_weights_joined(const Plan& plan, const std::vector<Stage>& trunk) {
  const TaskGraph graph = make_task_graph(plan, trunk);
  std::map<std::pair<int, int>, std::set<int>> fresh;  // filters by (stage, node)
  const auto add = [&](int stage, int node, FilterRange filters) {
    for (int f = filters.first; f < filters.first + filters.count; ++f) {
      // In a star the master receives weights also to pass them on.
      const bool passed_on = plan.exchange == Exchange::star && node == graph.master;
      const bool again = !fresh[{stage, node}].insert(f).second;
      EXPECT_TRUE(!again || passed_on) << "filter " << f << " comes twice";
    }
  };
  for (const Task& task : graph.tasks) {
    const bool between_slaves = task.kind == TaskKind::send && task.node != graph.master && task.to != graph.master;
    EXPECT_FALSE(plan.exchange == Exchange::star && between_slaves);
    const auto unequal = [&](int node) { return std::ranges::find(plan.unequal, node) != plan.unequal.end(); };
    const bool passed_on = plan.exchange == Exchange::star && (task.node == graph.master || task.to == graph.master);
    if (task.kind == TaskKind::send && task.cargo == Cargo::weights) {
      const bool in_rows = has_several_rows(plan.stages[task.stage]);
      EXPECT_TRUE(passed_on || !in_rows || unequal(task.node) || unequal(task.to));
      add(task.stage, task.to, task.filters);
    }
    if (task.kind == TaskKind::send && task.cargo == Cargo::filter_sum) {
      EXPECT_TRUE(passed_on || !(unequal(task.node) || unequal(task.to)));
      const bool early = task.stage >= static_cast<int>(trunk.size()) - plan.early_sums;
      EXPECT_EQ(task.of_update, !early);
      // The update of the next step waits for no early sum, because a step ends after all of its sends.
      if (early && tile_of(plan.stages[task.stage], task.to).filters.count > 0) add(task.stage, task.to, task.filters);
    }
    if (task.kind == TaskKind::update) {
      for (const int sum : task.after) {
        EXPECT_EQ(graph.tasks[sum].cargo, Cargo::filter_sum);
        EXPECT_TRUE(graph.tasks[sum].of_update);
        add(task.stage, task.node, graph.tasks[sum].filters);
      }
    }
    if (task.kind != TaskKind::filter_sum) continue;
    const StagePlan& planned = plan.stages[task.stage];
    for (int f = task.filters.first; f < task.filters.first + task.filters.count; ++f) {
      std::vector<int> samples;  // first samples of the rows in the order in which they are added
      for (const int before : task.after) {
        const Task& part = graph.tasks[before];
        EXPECT_TRUE(part.kind == TaskKind::backward_filters || part.cargo == Cargo::filter_part);
        if (common(part.filters, {f, 1}).count > 0) samples.push_back(part.samples.first);
      }
      ASSERT_EQ(samples.size(), planned.rows.size());
      for (std::size_t r = 0; r < samples.size(); ++r) EXPECT_EQ(samples[r], planned.rows[r].samples.first);
    }
  }
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    if (!has_parameters(trunk[s])) continue;
    for (const Assignment& owner : owners_of(plan.stages[s])) add(static_cast<int>(s), owner.member, owner.filters);
    for (const Tile& tile : tiles_of(plan.stages[s])) {
      int here = 0;
      for (const int f : fresh[{static_cast<int>(s), tile.member}]) here += common(tile.filters, {f, 1}).count;
      EXPECT_EQ(here, tile.filters.count);
    }
  }
}

/// Every member of a stage with batch norms takes the statistics of every channel of its tile from all rows, in the
/// order of the rows; forward from the first norm to the last, and then backward.
void expect_statistics_joined(const Plan& plan, const std::vector<Stage>& trunk) {
  const TaskGraph graph = make_task_graph(plan, trunk);
  const auto at = [&](int index) { return graph.tasks[index]; };
  std::map<std::pair<int, int>, std::vector<int>> taken;  // norms by (stage, node); slopes as -1 - norm
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::take_statistics) continue;
    const bool moments = task.cargo == Cargo::moments;
    taken[{task.stage, task.node}].push_back(moments ? task.norm : -1 - task.norm);
    ASSERT_EQ(task.after.size(), 1U);
    Task joined = at(task.after[0]);
    if (joined.kind == TaskKind::send) {
      EXPECT_EQ(joined.cargo, moments ? Cargo::joint_moments : Cargo::joint_slopes);
      EXPECT_EQ(joined.filters, task.filters);
      EXPECT_EQ(joined.norm, task.norm);
      joined = at(joined.after[0]);
    }
    ASSERT_EQ(joined.kind, TaskKind::join_statistics);
    EXPECT_EQ(joined.norm, task.norm);
    for (int c = task.filters.first; c < task.filters.first + task.filters.count; ++c) {
      std::vector<SampleRange> rows;
      for (const int before : joined.after) {
        const Task& part = at(before);
        EXPECT_TRUE(part.kind == TaskKind::statistics || part.kind == TaskKind::send);
        EXPECT_EQ(part.cargo, task.cargo);
        EXPECT_EQ(part.norm, task.norm);
        if (common(part.filters, {c, 1}).count > 0) rows.push_back(part.samples);
      }
      std::vector<SampleRange> expected;
      for (const Row& row : plan.stages[task.stage].rows) expected.push_back(row.samples);
      EXPECT_EQ(rows, expected);
    }
  }
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    std::vector<int> expected;
    for (int norm = 0; norm < batch_norms(trunk[s]); ++norm) expected.push_back(norm);
    for (int norm = batch_norms(trunk[s]) - 1; norm >= 0; --norm) expected.push_back(-1 - norm);
    if (!has_several_rows(plan.stages[s])) expected.clear();
    for (const Tile& tile : tiles_of(plan.stages[s])) {
      const std::vector<int> norms = taken[{static_cast<int>(s), tile.member}];
      EXPECT_EQ(norms, expected) << trunk[s].name;
    }
  }
}

class Tiles : public testing::TestWithParam<TilesCase> {};

TEST_P(Tiles, GetWhatTheyNeedAndJoinTheirGradients) {
  for (const std::vector<Stage>& trunk : {chain(), normalised_chain(), branches()}) {
    const Plan plan = plan_of(GetParam(), trunk);
    expect_maps_brought(plan, trunk);
    expect_statistics_joined(plan, trunk);
    expect_gradients_brought(plan, trunk);
    expect_weights_joined(plan, trunk);
  }
}

TEST_P(Tiles, OfUnequalMembersGetWeights) {
  for (const std::vector<int>& unequal : std::vector<std::vector<int>>{{1}, {0, 3}, {0, 1, 2, 3}}) {
    Plan plan = plan_of(GetParam(), chain());
    plan.unequal = unequal;
    validate(plan, chain());
    expect_weights_joined(plan, chain());
  }
}

TEST_P(Tiles, SurviveJson) {
  Plan plan = plan_of(GetParam(), chain());
  plan.unequal = {0, 2};
  EXPECT_EQ(plan_from_json(to_json(plan), "plan.json"), plan);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, Tiles,
    testing::Values(TilesCase{"RingOfSamples", Exchange::ring, 1, 4, false, {6, 6, 6, 6}, kSamples},
                    TilesCase{"StarOfSamples", Exchange::star, 2, 4, false, {1, 5, 2, 4}, kSamples},
                    TilesCase{"WithMaster", Exchange::star, 2, 4, true, {1, 5, 2, 4}, kSamples},
                    TilesCase{"RingSquare", Exchange::ring, 2, 4, false, {5, 7}, kSquare},
                    TilesCase{"StarSquare", Exchange::star, 1, 4, true, {10, 14}, kSquare},
                    TilesCase{"ThenFilters", Exchange::ring, 4, 4, true, {1, 2, 1, 2}, kSamples, 2},
                    TilesCase{"ThenFiltersInAStar", Exchange::star, 1, 4, false, {9, 5, 3, 7}, kSamples, 1},
                    TilesCase{"Relayed", Exchange::ring, 2, 4, false, {1, 5, 2, 4}, kSamples, 1, true},
                    TilesCase{"ThreeAndOne", Exchange::ring, 1, 4, false, {18, 6}, {{0, 1, 2}, {3}}, 2}),
    [](const auto& info) { return info.param.name; });

TEST(TilesOfOneMember, StayWhereTheyAre) {
  // Every member computes its own samples in all stages: no maps and no gradients of maps travel between slaves.
  const Plan plan = plan_of({"", Exchange::ring, 1, 4, false, {6, 6, 6, 6}, kSamples}, chain());
  const TaskGraph graph = make_task_graph(plan, chain());
  int images = 0;
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::send || concerns_weights(task)) continue;
    EXPECT_TRUE(task.node == graph.master || task.to == graph.master);
    if (task.stage == Source::kImages) images += task.samples.count;
  }
  EXPECT_EQ(images, kTiledBatch) << "each member receives its own samples alone";
}

TEST(TilesThatCannotBe, AreNamed) {
  const std::vector<Stage> trunk = chain();
  const Plan plan = plan_of({"", Exchange::ring, 1, 4, false, {6, 6, 6, 6}, kSamples}, trunk);
  const auto expect = [&](const std::string& text, const auto& damage) {
    Plan wrong = plan;
    std::vector<Stage> of = trunk;
    damage(wrong, of);
    EXPECT_THAT([&] { validate(wrong, of); }, testing::ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect("rows must follow one another", [](Plan& p, auto&) { p.stages[0].rows[1].samples.first = 7; });
  expect("rows must follow one another", [](Plan& p, auto&) { p.stages[0].rows[3].samples.count = 7; });
  expect("the rows have 18 of the 24 samples", [](Plan& p, auto&) { p.stages[0].rows.pop_back(); });
  expect("names member 2 twice", [](Plan& p, auto&) { p.stages[1].rows[3].shards[0].member = 2; });
  expect("names member 4", [](Plan& p, auto&) { p.stages[1].rows[3].shards[0].member = 4; });
  expect("assigns 7", [](Plan& p, auto&) { p.stages[0].rows[2].shards[0].filters.count = 7; });
  expect("has no owners", [](Plan& p, auto&) { p.stages[2].owners.clear(); });
  expect("but does not compute them all", [](Plan& p, auto&) {
    p.stages[2] = in_rows(chain()[2], {12, 12}, kSquare);
    std::swap(p.stages[2].owners[0].member, p.stages[2].owners[1].member);
  });
  expect("\"unequal\" names member 4", [](Plan& p, auto&) { p.unequal = {1, 4}; });
  expect("\"unequal\" names member 0", [](Plan& p, auto&) { p.unequal = {1, 0}; });
  expect("cannot also be replicated", [](Plan& p, auto&) { p.stages[0].replicated = true; });
  expect("the exchange thesis does not support", [](Plan& p, auto&) { p.exchange = Exchange::thesis; });
  EXPECT_THAT(
      [&] {
        Plan changed = plan;
        set_exchange(changed, Exchange::thesis);
      },
      testing::ThrowsMessage<Error>(HasSubstr("choose star or ring")));
}

TEST(TilesInMicroBatches, KeepTheirShares) {
  Plan plan = plan_of({"", Exchange::ring, 1, 4, false, {3, 9, 3, 9}, kSamples}, chain());
  set_micro_batches(plan, 3);
  validate(plan, chain());
  std::vector<int> samples;
  for (const Row& row : plan.stages[0].rows) samples.push_back(row.samples.count);
  EXPECT_EQ(samples, (std::vector<int>{1, 3, 1, 3}));
  EXPECT_THAT([&] { set_micro_batches(plan, 12); },
              testing::ThrowsMessage<Error>(HasSubstr("take fewer micro-batches")));
}

TEST(TilesInFiles, MayBeShardsOfAnOlderVersion) {
  const std::string text = R"({"batch": 6, "micro_batches": 2, "members": ["a", "b"], "stages": [{"shards": [
    {"member": 0, "first": 0, "filters": 3}, {"member": 1, "first": 3, "filters": 5}], "replicated": false}]})";
  const Plan plan = plan_from_json(text, "plan.json");
  EXPECT_EQ(plan.stages[0], stage_plan({3, 5}, 3));
}

TEST(TilesInTime, TakeTheirShareOfTheBatch) {
  const std::vector<Stage> trunk = chain();
  std::vector<MemberProfile> members;
  for (int m = 0; m < 4; ++m) {
    MemberProfile member{.name = "m"};
    for (const Stage& stage : trunk) {
      const int all = stage.conv.filters;
      member.stages.push_back({{.filters = all,
                                .forward = 24.0,
                                .backward_input = 48.0,
                                .backward_filters = 12.0,
                                .update = 1.0,
                                .forward_call = 2.0,
                                .input_call = 6.0}});
    }
    members.push_back(member);
  }
  const Plan plan = plan_of({"", Exchange::ring, 2, 4, false, {1, 5, 2, 4}, kSamples}, trunk);
  const MasterProfile master;
  const ClusterModel model = measured_cluster(plan, trunk, members, master);
  // 4 of 12 samples of each of two micro-batches.
  const auto seconds = [&](TaskKind kind) {
    return model.compute({.kind = kind, .node = 3, .stage = 0, .filters = {0, 8}, .samples = {8, 4}});
  };
  EXPECT_NEAR(seconds(TaskKind::forward), 2.0 + 22.0 / 2 / 3, 1e-9);
  EXPECT_NEAR(seconds(TaskKind::backward_input), 6.0 + 42.0 / 2 / 3, 1e-9);
  EXPECT_NEAR(seconds(TaskKind::backward_filters), 12.0 / 3, 1e-9);
}

}  // namespace
}  // namespace convoy
