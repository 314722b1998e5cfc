// Tests which maps and gradients stay on a node's device, and what the simulator counts for the others.
#include "plan/residence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/choose.hpp"
#include "tests/plan/tiled_plans.hpp"

namespace convoy {
namespace {

using testing::Each;
using testing::ElementsAre;

Residence residence_of(const Plan& plan, const std::vector<Stage>& trunk, int node) {
  const TaskGraph training = make_task_graph(plan, trunk);
  const TaskGraph testing = make_task_graph(plan, trunk, false);
  return find_residence(plan, trunk, {&training, &testing}, node);
}

Plan by_samples(const std::vector<Stage>& trunk, int until = 1000) {
  return plan_of({"", Exchange::ring, 2, 4, false, {1, 5, 2, 4}, kSamples, until}, trunk);
}

TEST(Residence, OfSamplesEverythingButImagesAndOutputs) {
  for (int node = 0; node < 4; ++node) {
    const Residence here = residence_of(by_samples(chain()), chain(), node);
    EXPECT_THAT(here.inputs, ElementsAre(ElementsAre(false), ElementsAre(true), ElementsAre(true)));
    EXPECT_THAT(here.leaves, ElementsAre(false, false, true)) << "the master gets the last maps";
    EXPECT_THAT(here.gradients, ElementsAre(true, true, false)) << "the gradient of the last maps comes from the head";
    EXPECT_THAT(here.sole_reader, ElementsAre(1, 2, -1));
    EXPECT_TRUE(here.keeps_input_gradient(1));
    EXPECT_FALSE(here.keeps_input_gradient(0));
  }
}

TEST(Residence, OfFiltersNothing) {
  const Residence here = residence_of(by_samples(chain(), 0), chain(), 1);
  for (const std::vector<bool>& inputs : here.inputs) EXPECT_THAT(inputs, Each(false));
  EXPECT_THAT(here.leaves, Each(true));
  EXPECT_THAT(here.gradients, Each(false));
  EXPECT_THAT(here.sole_reader, Each(-1));
}

/// Where the cut changes, maps leave the device, and other nodes add to the gradient.
TEST(Residence, EndsWhereTheCutChanges) {
  const Residence here = residence_of(by_samples(chain(), 2), chain(), 3);
  EXPECT_THAT(here.inputs, ElementsAre(ElementsAre(false), ElementsAre(true), ElementsAre(false)));
  EXPECT_THAT(here.leaves, ElementsAre(false, true, true));
  EXPECT_THAT(here.gradients, ElementsAre(true, false, false));
}

TEST(Residence, OfAShardOfARowNothing) {
  const Residence here =
      residence_of(plan_of({"", Exchange::ring, 1, 4, false, {10, 14}, kSquare}, chain()), chain(), 2);
  for (const std::vector<bool>& inputs : here.inputs) EXPECT_THAT(inputs, Each(false));
  EXPECT_THAT(here.gradients, Each(false));
}

/// Gradients of maps that several stages read are added up on the device.
TEST(Residence, OfMapsWithSeveralReaders) {
  const std::vector<Stage> trunk = branches();
  const Plan plan = by_samples(trunk);
  for (int node = 0; node < 4; ++node) {
    const Residence here = residence_of(plan, trunk, node);
    std::vector<int> readers(trunk.size(), 0);
    for (std::size_t s = 0; s < trunk.size(); ++s) {
      for (const Read& read : reads_for(trunk, s, {0, trunk[s].conv.filters})) {
        if (read.stage >= 0) ++readers[read.stage];
      }
    }
    EXPECT_GT(std::ranges::max(readers), 1);
    for (std::size_t s = 0; s < trunk.size(); ++s) {
      EXPECT_EQ(here.gradients[s], readers[s] > 0) << trunk[s].name;
      if (readers[s] != 1) {
        EXPECT_EQ(here.sole_reader[s], -1) << trunk[s].name;
      }
    }
  }
}

/// The heads' gradient goes to the shard of a master that computes all last maps, and nowhere else.
TEST(Residence, OfTheHeadsGradient) {
  const Plan alone = whole_plan(chain(), 24, "master");
  EXPECT_THAT(residence_of(alone, chain(), 0).from_heads, ElementsAre(false, false, true));
  const Plan shared = plan_of({"", Exchange::ring, 1, 4, true, {6, 6, 6, 6}, kSamples}, chain());
  for (int node = 0; node < 4; ++node) EXPECT_THAT(residence_of(shared, chain(), node).from_heads, Each(false));
}

/// The master's own member keeps what the head does not read.
TEST(Residence, OfTheMaster) {
  const Plan plan = plan_of({"", Exchange::ring, 1, 4, true, {6, 6, 6, 6}, kSamples}, chain());
  const Residence here = residence_of(plan, chain(), make_task_graph(plan, chain()).master);
  EXPECT_THAT(here.leaves, ElementsAre(false, false, true));
  EXPECT_THAT(here.gradients, ElementsAre(true, true, false));
}

/// It verifies slaves by maps that it has computed itself, so that all of them leave its device.
TEST(Residence, OfTheMasterOfAStarKeepsNoMapsToItself) {
  Plan plan = plan_of({"", Exchange::star, 1, 4, true, {6, 6, 6, 6}, kSamples}, branches());
  const Residence here = residence_of(plan, branches(), make_task_graph(plan, branches()).master);
  EXPECT_THAT(here.leaves, Each(true));
}

/// Members copy what leaves their devices at the speed of their memory.
TEST(Residence, TellsTheSimulatorWhichCopiesCost) {
  const std::vector<Stage> trunk = chain();
  std::vector<MemberProfile> members(4);
  for (MemberProfile& member : members) {
    member = {.name = "m", .stages = std::vector<std::vector<Timing>>(trunk.size()), .host = {.memory = 1e6}};
  }
  const auto seconds = [&](const Plan& plan, TaskKind kind, int stage) {
    const TaskGraph graph = make_task_graph(plan, trunk);
    const ClusterModel model = measured_cluster(plan, trunk, members, {}, &graph);
    const auto task = std::ranges::find_if(graph.tasks, [&](const Task& each) {
      return each.kind == kind && each.stage == stage && each.node == 1 && each.micro_batch == 0;
    });
    return task == graph.tasks.end() ? -1.0 : model.copy(*task);
  };
  const Plan samples = by_samples(trunk);
  EXPECT_EQ(seconds(samples, TaskKind::forward, 1), 0.0);
  EXPECT_EQ(seconds(samples, TaskKind::backward_input, 1), 0.0);
  // Five samples: of images 3 x 16 x 16, and of the last maps 10 x 2 x 2; each value of 4 bytes is read and written.
  EXPECT_NEAR(seconds(samples, TaskKind::forward, 0), 8e-6 * 5 * 768, 1e-9);
  EXPECT_NEAR(seconds(samples, TaskKind::forward, 2), 8e-6 * 5 * 40, 1e-9);
  EXPECT_NEAR(seconds(samples, TaskKind::backward_input, 2), 8e-6 * 5 * 40, 1e-9);

  const Plan filters = by_samples(trunk, 0);
  const int own = tile_of(filters.stages[1], 1).filters.count;
  EXPECT_NEAR(seconds(filters, TaskKind::forward, 1), 8e-6 * 12 * (8 * 64 + own * 16), 1e-9);
  EXPECT_NEAR(seconds(filters, TaskKind::backward_input, 1), 8e-6 * 12 * (8 * 64 + own * 16), 1e-9);
}

}  // namespace
}  // namespace convoy
