// Tests the choice among plans on invented machines and networks.

#include "plan/choose.hpp"
#include "plan/node_memory.hpp"
#include "plan/planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace convoy {
namespace {

using testing::HasSubstr;

constexpr HeadTimes kHead{.per_image = 0.001 / 64};

/// A smaller version of 500:1500: a cheap stage followed by an expensive one.
std::vector<Stage> unequal_stages() {
  const Convolution thin{.filters = 50, .kernel_h = 5, .kernel_w = 5, .pad = {2, 2, 2, 2}};
  const Convolution heavy{.filters = 150, .kernel_h = 5, .kernel_w = 5, .pad = {2, 2, 2, 2}};
  return {{.name = "conv1", .channels = 3, .height = 32, .width = 32, .conv = thin, .after = {Pooling{}}},
          {.name = "conv2", .channels = 50, .height = 16, .width = 16, .conv = heavy, .after = {Pooling{}}}};
}

constexpr int kBatch = 64;

/// A machine with a speed in GFLOP/s and a link in MB/s.
MemberProfile machine(const std::string& name, double gflops, double mbytes,
                      const std::vector<Stage>& stages = unequal_stages()) {
  MemberProfile member{.name = name, .link = {mbytes * 1e6, mbytes * 1e6}, .latency = 1e-4};
  for (const Stage& stage : stages) {
    const int all = stage.conv.filters;
    const double seconds = conv_flops(stage, kBatch, all) / gflops / 1e9;
    const double input = member.stages.empty() ? 0.0 : seconds;
    member.stages.push_back({{all / 10, seconds / 10, input / 10, seconds / 10}, {all, seconds, input, seconds}});
  }
  return member;
}

std::vector<MemberProfile> machines(const std::vector<double>& gflops, double mbytes) {
  std::vector<MemberProfile> members;
  for (const double each : gflops) members.push_back(machine(fmt::format("m{}", members.size()), each, mbytes));
  return members;
}

Choice choose(const std::vector<MemberProfile>& members, const Wishes& wishes = {}) {
  Choice choice = choose_plan(unequal_stages(), kBatch, members, wishes, {.head = kHead});
  EXPECT_NO_THROW(validate(choice.plan, unequal_stages()));
  return choice;
}

int filters_of(const Plan& plan, int member) {
  int filters = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) filters += own_filters(plan, s, member).count;
  return filters;
}

/// Maps of 64 x 64 and few weights: along filters, each stage would send more than it computes in the same time.
std::vector<Stage> wide_stages() {
  std::vector<Stage> wide;
  for (const int channels : {3, 60, 60}) {
    const Convolution conv{.filters = 60, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
    wide.push_back(
        {.name = fmt::format("conv{}", wide.size()), .channels = channels, .height = 64, .width = 64, .conv = conv});
  }
  wide.back().after = {Pooling{.kernel_h = 8, .kernel_w = 8, .stride_h = 8, .stride_w = 8}};
  return wide;
}

TEST(Choose, CutsAlongSamplesWhereMapsAreLargerThanWeights) {
  const std::vector<Stage> wide = wide_stages();
  std::vector<MemberProfile> members;
  for (const double gflops : {100, 50, 100, 100}) {
    members.push_back(machine(fmt::format("m{}", members.size()), gflops, 100, wide));
  }
  const Choice choice = choose_plan(wide, kBatch, members, {}, {.head = kHead});
  EXPECT_NO_THROW(validate(choice.plan, wide));
  const StagePlan& last = choice.plan.stages.back();
  ASSERT_TRUE(has_several_rows(last)) << describe(choice.plan);
  // Samples and ownership follow the speeds: 2 to 1 to 2 to 2.
  const int all = micro_batch_size(choice.plan);
  EXPECT_NEAR(tile_of(last, 1).samples.count, all / 7.0, 1.0);
  EXPECT_NEAR(tile_of(last, 3).samples.count, all * 2 / 7.0, 1.0);
  EXPECT_NEAR(own_filters(choice.plan, 1, 1).count, 60 / 7.0, 1.0);
  double with_filters = 0.0;  // the best of the other forms
  for (const Alternative& other : choice.alternatives) {
    if (with_filters == 0.0 && other.text.find("along samples") == std::string::npos) with_filters = other.seconds;
  }
  EXPECT_LT(choice.predicted.seconds, with_filters);
}

/// The statistics of a batch norm are joined, so that it keeps no stage from being cut along samples.
TEST(Choose, CutsStagesWithABatchNormAlongSamples) {
  std::vector<Stage> normed = unequal_stages();
  for (Stage& stage : normed) stage.after.insert(stage.after.begin(), BatchNorm{.name = "norm"});
  const Choice choice =
      choose_plan(normed, kBatch, machines({100, 100, 100, 100}, 50), {.layout = Layout::samples}, {.head = kHead});
  EXPECT_NO_THROW(validate(choice.plan, normed));
  EXPECT_TRUE(std::ranges::all_of(choice.plan.stages, has_several_rows)) << describe(choice.plan);
}

/// The last stages have the most weights, as in most nets.
std::vector<Stage> widening_stages() {
  std::vector<Stage> stages;
  for (int s = 0; s < 16; ++s) {
    const int filters = s < 12 ? 128 : 256;
    const int channels = s == 0 ? 3 : stages.back().conv.filters;
    const int size = s < 12 ? 32 : 16;
    const Convolution conv{.filters = filters, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
    stages.push_back(
        {.name = fmt::format("conv{}", s), .channels = channels, .height = size, .width = size, .conv = conv});
    if (s == 11) stages.back().after = {Pooling{}};
  }
  stages.back().after = {Pooling{.kernel_h = 16, .kernel_w = 16, .stride_h = 16, .stride_w = 16}};
  return stages;
}

/// Sums of the last stages fill the links while the parts of earlier stages are computed. If all sums left early, the
/// parts would wait for them.
TEST(Choose, SendsSumsOfTheLastStagesEarlyWhereLinksAreTheLimit) {
  const auto choose_with = [](int moments, double mbytes) {
    std::vector<Stage> stages = widening_stages();
    for (Stage& stage : stages) stage.moments = moments;
    std::vector<MemberProfile> members;
    for (int i = 0; i < 4; ++i) members.push_back(machine(fmt::format("m{}", i), 1000, mbytes, stages));
    const Wishes wishes{.exchange = Exchange::ring, .layout = Layout::samples};
    return choose_plan(stages, kBatch, members, wishes, {.head = kHead});
  };
  const Choice choice = choose_with(1, 100);
  EXPECT_NO_THROW(validate(choice.plan, widening_stages()));
  EXPECT_GT(choice.plan.early_sums, 0);
  EXPECT_LT(choice.plan.early_sums, static_cast<int>(choice.plan.stages.size()));
  EXPECT_THAT(describe(choice.plan), HasSubstr("sent early"));
  const Choice late = choose_with(0, 100);
  EXPECT_EQ(late.plan.early_sums, 0) << "a parameter server has no use for sums at the members";
  EXPECT_LT(choice.predicted.seconds, 0.97 * late.predicted.seconds);
  EXPECT_EQ(choose_with(1, 1e6).plan.early_sums, 0) << "fast links need no other order";
}

std::vector<Stage> deep_stages() {
  std::vector<Stage> deep;
  for (int s = 0; s < 24; ++s) {
    const Convolution conv{.filters = 32 + s, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
    const int channels = s == 0 ? 3 : deep.back().conv.filters;
    deep.push_back({.name = fmt::format("conv{}", s), .channels = channels, .height = 24, .width = 24, .conv = conv});
  }
  return deep;
}

std::vector<MemberProfile> ten_machines(const std::vector<Stage>& trunk) {
  std::vector<MemberProfile> members;
  for (const double gflops : {100, 50, 100, 100, 20, 60, 80, 90, 100, 70})
    members.push_back(machine(fmt::format("m{}", members.size()), gflops, 100, trunk));
  return members;
}

/// To simulate a plan that cannot be chosen takes long with many members.
TEST(Choose, ListsAKindOfCutsThatIsHopelessByItsBound) {
  const std::vector<Stage> deep = deep_stages();
  const std::vector<MemberProfile> members = ten_machines(deep);
  const Choice choice = choose_plan(deep, kBatch, members, {}, {.head = kHead});
  const auto bound = std::ranges::find(choice.alternatives, true, &Alternative::at_least);
  ASSERT_NE(bound, choice.alternatives.end());
  EXPECT_EQ(bound->layout, Layout::filters);
  EXPECT_THAT(bound->text, HasSubstr("10 of 10 members"));
  EXPECT_GT(bound->seconds, choice.predicted.seconds);
}

/// So many tiles are planned by several threads, whose turns must not decide.
TEST(Choose, ChoosesTheSamePlanAgainWithThreads) {
  const std::vector<Stage> deep = deep_stages();
  const std::vector<MemberProfile> members = ten_machines(deep);
  const Choice first = choose_plan(deep, kBatch, members, {}, {.head = kHead});
  EXPECT_GT(first.alternatives.size(), 4U);
  for (int again = 0; again < 2; ++again) {
    const Choice choice = choose_plan(deep, kBatch, members, {}, {.head = kHead});
    EXPECT_EQ(choice.plan, first.plan);
    ASSERT_EQ(choice.alternatives.size(), first.alternatives.size());
    for (std::size_t i = 0; i < first.alternatives.size(); ++i) {
      EXPECT_EQ(choice.alternatives[i].text, first.alternatives[i].text);
      EXPECT_EQ(choice.alternatives[i].seconds, first.alternatives[i].seconds);
    }
  }
}

TEST(Choose, UsesAllMachinesOnAFastNetwork) {
  const auto members = machines({100, 100, 100, 100}, 10000);
  const double alone = seconds_alone(unequal_stages(), members[0], kBatch, kHead);
  EXPECT_LT(choose(members).predicted.seconds, 1.1 * alone / 4);
}

TEST(Choose, SharesFollowSpeeds) {
  const Choice choice = choose(machines({400, 200, 100}, 10000));
  EXPECT_NEAR(own_filters(choice.plan, 1, 0).count, 150.0 * 4 / 7, 2);
  EXPECT_NEAR(own_filters(choice.plan, 1, 2).count, 150.0 / 7, 2);
}

/// More micro-batches cost time in the head, because each of them reads all weights of the dense layers.
TEST(Choose, TakesFewerMicroBatchesForALargeHead) {
  const auto members = machines({100, 100}, 100);
  const auto micro_batches = [&](const HeadTimes& head) {
    return choose_plan(unequal_stages(), kBatch, members, {}, {.head = head}).plan.micro_batches;
  };
  EXPECT_LT(micro_batches({.fixed = 1.0}), micro_batches(kHead));
}

/// The time of a pass that does not depend on the number of images is spent for each micro-batch.
TEST(Choose, TakesFewerMicroBatchesWhereCallsCost) {
  auto members = machines({100, 100}, 100);
  const int cheap = choose(members).plan.micro_batches;
  for (MemberProfile& member : members) {
    for (std::vector<Timing>& stage : member.stages) {
      for (Timing& timing : stage) timing.forward_call = timing.input_call = 0.8 * timing.forward;
    }
  }
  EXPECT_LT(choose(members).plan.micro_batches, cheap);
}

/// The time of one machine alone decides whether the master trains without slaves.
TEST(Choose, PredictsALossOnASlowNetwork) {
  const auto members = machines({100, 100, 100, 100}, 0.1);
  EXPECT_GT(choose(members).predicted.seconds, seconds_alone(unequal_stages(), members[0], kBatch, kHead));
}

TEST(Choose, LeavesOutAMachineThatCostsMoreThanItBrings) {
  auto members = machines({100, 100, 100}, 1000);
  members[1].link = {1e5, 1e5};
  const Choice choice = choose(members);
  EXPECT_EQ(filters_of(choice.plan, 1), 0) << "member 1 has by far the slowest link";
  EXPECT_GT(filters_of(choice.plan, 0), 0);
  EXPECT_GT(filters_of(choice.plan, 2), 0);
}

TEST(Choose, TakesTheRingWhereTheMastersLinkIsTheLimit) {
  const auto members = machines({100, 100, 100, 100, 100, 100}, 60);
  const Choice choice = choose(members);
  EXPECT_EQ(choice.plan.exchange, Exchange::ring);
  EXPECT_LT(choice.predicted.seconds, choose(members, {.exchange = Exchange::star}).predicted.seconds);
}

/// The bandwidth from all slaves to the master at once may be less than that of one slave alone or, if the slaves'
/// links are slow, more.
TEST(Choose, CountsWithTheMastersCardAsItWasMeasured) {
  const std::vector<Stage> stages = unequal_stages();
  const auto members = machines({1000, 1000, 1000, 1000}, 60);
  const auto seconds = [&](const NodeLink& card) {
    const MasterProfile master{.head = kHead, .host = {}, .card = card};
    return choose_plan(stages, kBatch, members, {.exchange = Exchange::star}, master).predicted.seconds;
  };
  EXPECT_GT(seconds({50e6, 50e6}), 1.05 * seconds({}));
  EXPECT_DOUBLE_EQ(seconds({60e6, 60e6}), seconds({}));
  const Plan plan = choose(members).plan;
  const MasterProfile master{.head = kHead, .host = {}, .card = {50e6, 240e6}};
  EXPECT_EQ(measured_cluster(plan, stages, members, master).links.back().out, 50e6);
  EXPECT_EQ(measured_cluster(plan, stages, members, master).links.back().in, 240e6);
}

TEST(Choose, KeepsToWhatIsSettled) {
  const auto members = machines({100, 100, 100}, 100);
  const Choice choice = choose(members, {.exchange = Exchange::star, .micro_batches = 4, .wire = NumberType::bf16});
  EXPECT_EQ(choice.plan.exchange, Exchange::star);
  EXPECT_EQ(choice.plan.micro_batches, 4);
  EXPECT_EQ(choice.plan.wire, NumberType::bf16);
}

TEST(Choose, KeepsToTheLayoutThatIsSettled) {
  const auto members = machines({100, 100, 100}, 100);
  const auto rows = [](const Choice& choice) { return choice.plan.stages.front().rows.size(); };
  EXPECT_EQ(rows(choose(members, {.layout = Layout::samples})), 3U);
  EXPECT_EQ(rows(choose(members, {.layout = Layout::filters})), 1U);
  EXPECT_EQ(rows(choose(machines({100}, 100), {.layout = Layout::samples})), 1U) << "nobody to share samples with";
}

/// The first stages of AlexNet.
std::vector<Stage> stages_with_a_norm() {
  const Pooling pool{.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2};
  const Convolution conv1{
      .filters = 96, .kernel_h = 11, .kernel_w = 11, .stride_h = 4, .stride_w = 4, .pad = {2, 2, 2, 2}};
  const Convolution conv2{.filters = 256, .kernel_h = 5, .kernel_w = 5, .pad = {2, 2, 2, 2}, .groups = 2};
  const Convolution conv3{.filters = 384, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
  Stage norm = stage_without_weights("norm1", StageKind::response_norm, 96, 55, 55);
  norm.after = {pool};
  return {{.name = "conv1", .channels = 3, .height = 224, .width = 224, .conv = conv1},
          norm,
          {.name = "conv2", .channels = 96, .height = 27, .width = 27, .conv = conv2, .after = {pool}},
          {.name = "conv3", .channels = 256, .height = 13, .width = 13, .conv = conv3, .after = {pool}}};
}

TEST(Choose, ReplicatesAFirstNormWhole) {
  const std::vector<Stage> stages = stages_with_a_norm();
  bool seen = false;
  for (const double mbytes : {3.0, 10.0, 30.0, 100.0}) {
    std::vector<MemberProfile> members;
    for (int i = 0; i < 4; ++i) members.push_back(machine(fmt::format("m{}", i), 60, mbytes, stages));
    const Wishes wishes{.exchange = Exchange::ring, .layout = Layout::filters};
    const Choice choice = choose_plan(stages, kBatch, members, wishes, {.head = kHead});
    EXPECT_NO_THROW(validate(choice.plan, stages)) << mbytes << " MB/s";
    seen = seen || choice.plan.stages[1].replicated;
  }
  EXPECT_TRUE(seen) << "with some of these links both first stages should be replicated";
}

TEST(Choose, ReplicatesNoOutput) {
  std::vector<Stage> stages = unequal_stages();
  stages.push_back(stages.back());
  stages.back().name = "conv3";
  stages.back().from = {{.stage = 0, .channels = {0, 50}}};
  for (const double mbytes : {1.0, 3.0, 10.0, 30.0, 100.0}) {
    std::vector<MemberProfile> members;
    for (int i = 0; i < 4; ++i) members.push_back(machine(fmt::format("m{}", i), 100, mbytes, stages));
    const Wishes wishes{.exchange = Exchange::ring, .layout = Layout::filters};
    EXPECT_NO_THROW(validate(choose_plan(stages, kBatch, members, wishes, {.head = kHead}).plan, stages));
  }
}

TEST(Choose, IsAsFastAsTheBestOfAllWishes) {
  const std::vector<std::vector<double>> speeds{{100, 100}, {100, 50, 25}, {100, 100, 100, 100, 100, 100}};
  for (const std::vector<double>& gflops : speeds) {
    for (const double mbytes : {3.0, 30.0, 300.0}) {
      const std::vector<MemberProfile> members = machines(gflops, mbytes);
      double best = std::numeric_limits<double>::infinity();
      for (const Exchange exchange : {Exchange::star, Exchange::ring}) {
        for (const Layout layout : {Layout::filters, Layout::samples}) {
          for (const int micro_batches : {1, 2, 4, 8, 16}) {
            const Wishes wishes{.exchange = exchange, .micro_batches = micro_batches, .layout = layout};
            best = std::min(best, choose(members, wishes).predicted.seconds);
          }
        }
      }
      // A plan that leaves no member out may take a twentieth longer, and a simpler one a hundredth.
      EXPECT_LE(choose(members).predicted.seconds, 1.07 * best) << gflops.size() << " machines, " << mbytes << " MB/s";
    }
  }
}

TEST(Choose, SaysWhatItLookedAt) {
  const Choice choice = choose(machines({100, 100, 100}, 100));
  EXPECT_GT(choice.alternatives.size(), 10U);
  EXPECT_TRUE(std::ranges::is_sorted(choice.alternatives, {}, &Alternative::seconds));
  EXPECT_LE(0.99 * choice.predicted.seconds, choice.alternatives.front().seconds)
      << "a simpler plan may be chosen for a difference below 1 %";
  EXPECT_TRUE(std::ranges::any_of(choice.alternatives, [](const Alternative& each) {
    return each.text.find("2 of 3 members") != std::string::npos;
  }));
}

TEST(Choose, RefusesANetThatDoesNotFitWithTheNumbers) {
  auto members = machines({100, 100}, 100);
  for (MemberProfile& member : members) member.memory = 1 << 20;
  EXPECT_THAT([&] { choose_plan(unequal_stages(), kBatch, members, {}, {.head = kHead}); },
              testing::ThrowsMessage<Error>(HasSubstr("MiB")));
}

/// Members that share filters all hold the whole input of each stage. Members that share samples need much less.
TEST(Choose, MembersWithRoomForTheirSamplesAloneShareThese) {
  const std::vector<Stage> wide = wide_stages();
  std::vector<MemberProfile> members;
  for (int i = 0; i < 4; ++i) members.push_back(machine(fmt::format("m{}", i), 100, 100, wide));
  const Plan roomy = choose_plan(wide, kBatch, members, {}, {.head = kHead}).plan;
  const TaskGraph graph = make_task_graph(roomy, wide);
  ASSERT_TRUE(has_several_rows(roomy.stages.back()));
  const auto choose_within = [&](std::size_t bytes, double factor) {
    for (MemberProfile& member : members) {
      member.memory = bytes;
      member.memory_factor = factor;
    }
    return choose_plan(wide, kBatch, members, {}, {.head = kHead}).plan;
  };
  const std::size_t shards = shards_bytes(roomy, wide, graph, 0);
  EXPECT_THROW(make_plan(wide, kBatch, (choose_within(shards, 0.0), members)), Error) << "filters would fit";
  EXPECT_EQ(describe(choose_within(shards, 0.0)), describe(roomy));
  EXPECT_THROW(choose_within(shards, 1.0), Error) << "values on their way need memory as well";
  const std::size_t host = host_bytes(roomy, wide, graph, 0);
  EXPECT_EQ(describe(choose_within(shards + host, 1.0)), describe(roomy));
  EXPECT_THROW(choose_within(shards + host / 2 - 1, 2.0), Error);
  EXPECT_EQ(describe(choose_within(shards + host / 2 + 1, 2.0)), describe(roomy));
}

TEST(Choose, TheMastersOwnShareNeedsNoLink) {
  auto members = machines({100, 100}, 100);
  members.push_back(machine("master", 100, 0));
  const Choice choice = choose(members);
  EXPECT_GT(filters_of(choice.plan, 2), 0);
  EXPECT_EQ(choice.predicted.nodes.size(), 3U);
}

}  // namespace
}  // namespace convoy
