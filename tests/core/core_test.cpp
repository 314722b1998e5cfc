// Tests random numbers, stages, the optimizers, and the thread team.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <new>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/shard_state.hpp"
#include "core/thread_team.hpp"
#include "tests/support/states.hpp"

namespace convoy {
namespace {

using Words = std::array<std::uint32_t, 4>;

/// Compares with the known answers that the authors of Philox publish (Random123, kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  const std::uint32_t ones = 0xFFFFFFFF;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}), (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Random, EqualNamesGiveEqualSequencesOthersDoNot) {
  Random a(1, 2);
  Random b(1, 2);
  Random c(1, 3);
  Random d(2, 2);
  int same_c = 0;
  int same_d = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t word = a.next();
    EXPECT_EQ(word, b.next());
    same_c += word == c.next() ? 1 : 0;
    same_d += word == d.next() ? 1 : 0;
  }
  EXPECT_LT(same_c + same_d, 3);
}

TEST(Random, DistributionsHaveTheirMoments) {
  Random random(7, 1);
  constexpr int kDraws = 200000;
  double uniform = 0.0;
  double normal = 0.0;
  double squares = 0.0;
  std::array<int, 6> sides{};
  for (int i = 0; i < kDraws; ++i) {
    const float u = random.uniform();
    ASSERT_TRUE(u >= 0.0F && u < 1.0F);
    uniform += u;
    const float z = random.normal();
    ASSERT_TRUE(std::isfinite(z));
    normal += z;
    squares += z * z;
    ++sides.at(random.below(6));
  }
  // Each tolerance is five standard deviations of the mean.
  EXPECT_NEAR(uniform / kDraws, 0.5, 5 * 0.2887 / std::sqrt(kDraws));
  EXPECT_NEAR(normal / kDraws, 0.0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
  for (const int count : sides) EXPECT_NEAR(count, kDraws / 6.0, 5 * std::sqrt(kDraws * 5.0 / 36.0));
}

TEST(Random, ShuffleIsAPermutation) {
  std::vector<int> items(100);
  std::iota(items.begin(), items.end(), 0);
  Random(1, 1).shuffle(items);
  EXPECT_FALSE(std::is_sorted(items.begin(), items.end()));
  std::sort(items.begin(), items.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(items[i], i);
}

TEST(Random, DropoutDropsItsRateAndKeepsTheMean) {
  int dropped = 0;
  double sum = 0.0;
  for (int i = 0; i < 40000; ++i) {
    const float scale = dropout_scale(5, 0, 0.25F, i % 4, i / 1000, i % 1000);
    if (scale == 0.0F) ++dropped;
    sum += scale;
  }
  EXPECT_NEAR(dropped, 10000, 5 * std::sqrt(40000 * 0.1875));
  EXPECT_NEAR(sum / 40000, 1.0, 0.02);
}

// ---- stages --------------------------------------------------------------------------------------------------------

Stage good_stage() {
  return {.name = "conv7",
          .channels = 3,
          .height = 11,
          .width = 8,
          .conv = {.filters = 5, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 1, .pad = {1, 0, 1, 1}},
          .after = {Activation::relu, Pooling{.kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 2}}};
}

TEST(Stages, ShapesAndWork) {
  const Stage stage = good_stage();
  EXPECT_NO_THROW(validate(stage));
  EXPECT_EQ(input_shape(stage, 4), (Shape{4, 3, 11, 8}));
  EXPECT_EQ(conv_shape(stage, 4, 5), (Shape{4, 5, 6, 8}));
  EXPECT_EQ(output_shape(stage, 4, 2), (Shape{4, 2, 2, 4}));
  EXPECT_EQ(weight_shape(stage, 2), (Shape{2, 3, 3, 2}));
  EXPECT_EQ(conv_flops(stage, 4, 5), 2.0 * 4 * 5 * 6 * 8 * 3 * 3 * 2);
}

Stage shuffled_stage(int channels, int groups, const std::string& name = "mixed") {
  Stage stage = stage_without_weights(name, StageKind::shuffle, channels, 4, 4);
  stage.shuffle = groups;
  return stage;
}

TEST(Shuffles, PutTheFirstChannelsOfAllGroupsFirst) {
  const Stage stage = shuffled_stage(6, 2);
  std::vector<int> from;
  for (int f = 0; f < 6; ++f) from.push_back(shuffled_from(stage, f));
  EXPECT_EQ(from, (std::vector<int>{0, 3, 1, 4, 2, 5}));
}

/// Ranges that are read are exactly the channels of the filters, and their hull is one range.
TEST(Shuffles, ReadTheChannelsOfTheirFilters) {
  for (const int channels : {1, 6, 12, 20}) {
    for (int groups = 1; groups <= channels; ++groups) {
      if (channels % groups != 0) continue;
      const Stage stage = shuffled_stage(channels, groups);
      for (int first = 0; first < channels; ++first) {
        for (int count = 1; first + count <= channels; ++count) {
          std::vector<int> expected;
          for (int f = first; f < first + count; ++f) expected.push_back(shuffled_from(stage, f));
          std::ranges::sort(expected);
          std::vector<int> read;
          const std::vector<FilterRange> runs = channel_runs_for(stage, {first, count});
          for (std::size_t r = 0; r < runs.size(); ++r) {
            if (r > 0) {
              EXPECT_GT(runs[r].first, runs[r - 1].first + runs[r - 1].count);
            }
            for (int i = 0; i < runs[r].count; ++i) read.push_back(runs[r].first + i);
          }
          EXPECT_EQ(read, expected);
          EXPECT_EQ(channels_for(stage, {first, count}),
                    (FilterRange{expected.front(), expected.back() - expected.front() + 1}));
        }
      }
    }
  }
}

TEST(Trunks, ReadAllChannelsOfAStageOrNone) {
  std::vector<Stage> trunk{stage_without_weights("a", StageKind::channels, 6, 4, 4),
                           stage_without_weights("b", StageKind::channels, 4, 4, 4),
                           stage_without_weights("c", StageKind::channels, 3, 4, 4)};
  trunk[1].from = {{0, {0, 4}}};
  trunk[2].from = {{0, {3, 3}}};
  validate(trunk);
  trunk[1].from = {{0, {1, 2}}, {0, {0, 2}}};
  EXPECT_NO_THROW(validate(trunk));
  trunk[1].from = {{0, {1, 2}}, {0, {1, 2}}};
  EXPECT_EQ(left_out(trunk), (Source{0, {0, 1}}));
  trunk[1].from = {{0, {0, 2}}, {0, {0, 2}}};
  EXPECT_THROW(validate(trunk), Error);
}

TEST(Trunks, MultiplyByMapsOfTheirShapeOrByPoints) {
  std::vector<Stage> trunk{stage_without_weights("a", StageKind::channels, 6, 4, 4),
                           stage_without_weights("b", StageKind::channels, 6, 4, 4)};
  const Source all{0, {0, 6}};
  trunk[1].after = {Multiply{{all}}};
  EXPECT_EQ(added_shapes(trunk[1], 2, 3), (std::vector<Shape>{{2, 3, 4, 4}}));
  validate(trunk);
  trunk[1].after = {Multiply{{all}, true}};
  EXPECT_EQ(added_shapes(trunk[1], 2, 3), (std::vector<Shape>{{2, 3, 1, 1}}));
  EXPECT_THROW(validate(trunk), Error);
  trunk[0].after = {Pooling{.kernel_h = 4, .kernel_w = 4}};
  trunk[1].from = {{Source::kImages, {0, 6}}};
  EXPECT_NO_THROW(validate(trunk));
}

struct BadStage {
  const char* name;
  void (*spoil)(Stage&);
};

void PrintTo(const BadStage& bad, std::ostream* out) { *out << bad.name; }

class BadStages : public testing::TestWithParam<BadStage> {};

TEST_P(BadStages, AreRefusedByName) {
  Stage stage = good_stage();
  GetParam().spoil(stage);
  try {
    validate(stage);
    FAIL() << "the stage was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("conv7"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadStages,
    testing::Values(BadStage{"NoFilters", [](Stage& s) { s.conv.filters = 0; }},
                    BadStage{"NegativeChannels", [](Stage& s) { s.channels = -1; }},
                    BadStage{"NoRows", [](Stage& s) { s.height = 0; }},
                    BadStage{"NoStride", [](Stage& s) { s.conv.stride_w = 0; }},
                    BadStage{"NoKernel", [](Stage& s) { s.conv.kernel_h = 0; }},
                    BadStage{"KernelBeyondTheMap", [](Stage& s) { s.conv.kernel_w = 99; }},
                    BadStage{"NegativePad", [](Stage& s) { s.conv.pad.top = -1; }},
                    BadStage{"PadAsLargeAsTheKernel", [](Stage& s) { s.conv.pad.left = 2; }},
                    BadStage{"PoolBeyondTheMap", [](Stage& s) { s.after = {Pooling{.kernel_h = 50, .kernel_w = 50}}; }},
                    BadStage{"ShuffleOfUnequalGroups", [](Stage& s) { s = shuffled_stage(6, 4, s.name); }},
                    BadStage{"ShuffleOfNoGroups", [](Stage& s) { s = shuffled_stage(6, 0, s.name); }},
                    BadStage{"PoolWithoutStride", [](Stage& s) { s.after = {Pooling{.stride_h = 0}}; }},
                    BadStage{"DropoutOfEverything", [](Stage& s) { s.after = {Dropout{.rate = 1.0F}}; }}),
    [](const auto& each) { return each.param.name; });

TEST(States, SliceAndPasteAreInverse) {
  const Stage stage = good_stage();
  ShardState whole = zero_state(stage, 5);
  float value = 0.0F;
  for (Tensor* tensor : tensors_of(whole)) {
    for (float& x : tensor->span()) x = ++value;
  }
  ShardState again = zero_state(stage, 5);
  for (const FilterRange range : {FilterRange{0, 2}, FilterRange{2, 1}, FilterRange{3, 2}}) {
    paste(slice(whole, range), range, again);
  }
  EXPECT_TRUE(same_bits(whole, again));
  EXPECT_EQ(slice(whole, {3, 2}).weights().at(0, 0, 0, 0), whole.weights().at(3, 0, 0, 0));
}

TEST(States, HaveTheParametersOfTheStage) {
  Stage stage = good_stage();
  stage.conv.bias = false;
  stage.after = {BatchNorm{.name = "norm"}, Activation::relu};
  stage.moments = 2;
  std::string names;
  for (const ParameterSpec& spec : parameters_of(stage, 5)) names += spec.name + (spec.trained ? " " : "! ");
  EXPECT_EQ(names, stage.name + ".weight norm.weight norm.bias norm.running_mean! norm.running_var! ");
  const ShardState state = zero_state(stage, 5);
  EXPECT_EQ(state.parameters[0].moments.size(), 2U);
  EXPECT_EQ(state.parameters[1].value.at(4, 0), 1.0F);
  EXPECT_EQ(state.parameters[2].value.at(4, 0), 0.0F);
  EXPECT_EQ(state.parameters[3].value.at(4, 0), 0.0F);
  EXPECT_EQ(state.parameters[4].value.at(4, 0), 1.0F);
  EXPECT_EQ(state.parameters[4].moments.size(), 0U);
}

/// The definition itself, on whatever processor: a compiler that fused a product and a sum would change the bits.
TEST(Updates, HaveTheSameBitsOnEveryProcessor) {
  constexpr std::size_t kValues = 1000;
  const auto bits_after = [](UpdateStep step) {
    Random random(7, 0);
    std::vector<float> w(kValues), v(kValues), s(kValues), g(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      const float size = std::ldexp(1.0F, i % 5 == 4 ? -static_cast<int>(i % 149) : 0);
      w[i] = random.uniform(-1.0F, 1.0F) * size;
      v[i] = random.uniform(-1.0F, 1.0F) * size;
      s[i] = random.uniform(0.0F, 1.0F) * size;
      g[i] = random.uniform(-1.0F, 1.0F) * size;
    }
    float* const moments[] = {v.data(), s.data()};
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(update_values(step, g.data(), w.data(), moments, 0, kValues));
    std::uint32_t hash = 2166136261U;  // FNV-1a of the words
    for (const auto& all : {w, v, s}) {
      for (const float value : all) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 16777619U;
    }
    return hash;
  };
  UpdateStep step{.learning_rate = 0.0123F, .momentum = 0.9F, .weight_decay = 5e-4F, .gradient_scale = 0.37F};
  EXPECT_EQ(bits_after(step), 1523034336U);
  step.optimizer = Optimizer::nesterov;
  EXPECT_EQ(bits_after(step), 130950781U);
  step.optimizer = Optimizer::adam;
  step.correction1 = 0.271F;
  step.correction2 = 2.997e-3F;
  EXPECT_EQ(bits_after(step), 12365849U);
}

/// Checks two steps on one value against values worked out by hand.
TEST(Updates, AreThoseOfTheFormulas) {
  const auto after = [](UpdateStep step) {
    double w = 1.0;
    double first = 0.0;
    double second = 0.0;
    double* const moments[] = {&first, &second};
    const double gradients[] = {0.5, -0.25};
    for (const double& gradient : gradients) update_values(step, &gradient, &w, moments, 0, 1);
    return w;
  };
  UpdateStep step{.learning_rate = 0.125F, .momentum = 0.5F};
  // v = 0.5, w = 0.9375; v = 0, w = 0.9375
  EXPECT_DOUBLE_EQ(after(step), 0.9375);
  step.gradient_scale = 0.5F;
  EXPECT_DOUBLE_EQ(after(step), 0.96875);
  step.gradient_scale = 1.0F;
  step.weight_decay = 0.5F;
  // v = 1, w = 0.875; v = 0.5 - 0.25 + 0.4375 = 0.6875, w = 0.7890625
  EXPECT_DOUBLE_EQ(after(step), 0.7890625);
  step.weight_decay = 0.0F;
  step.optimizer = Optimizer::nesterov;
  // v = 0.5, w = 1 - 0.125 * 0.75; v = 0, w = 0.90625 + 0.125 * 0.25
  EXPECT_DOUBLE_EQ(after(step), 0.9375);
  step.optimizer = Optimizer::adam;
  step.beta2 = 0.75F;
  step.epsilon = 0.25F;
  step.correction1 = 0.5F;
  step.correction2 = 0.25F;
  // m = 0.25, s = 0.0625: w = 1 - 0.25 * 0.25 / 0.75; m = 0, s = 0.0625
  EXPECT_DOUBLE_EQ(after(step), 1.0 - 0.0625 / 0.75);
}

// ---- threads -------------------------------------------------------------------------------------------------------

TEST(ThreadTeam, RunsEachJobOnceAndReturnsWhenAllAreDone) {
  for (const int size : {1, 2, 5}) {
    ThreadTeam team(size);
    EXPECT_EQ(team.size(), size);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> ran(static_cast<std::size_t>(size), 0);  // run() synchronises, so atomics are not needed
      team.run([&](int i) { ++ran[i]; });
      EXPECT_EQ(std::count(ran.begin(), ran.end(), 1), size);
    }
  }
}

TEST(ThreadTeam, ThrowsWhatAJobThrowsWhenAllHaveEndedAndGoesOn) {
  ThreadTeam team(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    std::atomic<int> ended{0};
    const auto job = [&](int thread) {
      if (thread == thrower) throw std::bad_alloc();
      ++ended;
    };
    EXPECT_THROW(team.run(job), std::bad_alloc);
    EXPECT_EQ(ended, 2);
  }
  std::atomic<int> ran{0};
  team.run([&](int) { ++ran; });
  EXPECT_EQ(ran, 3);
}

TEST(ThreadTeam, SplitCoversEverythingOnceInOrder) {
  ThreadTeam team(3);
  for (const int count : {0, 1, 2, 3, 10, 100}) {
    std::vector<int> owner(static_cast<std::size_t>(count), -1);
    team.split(count, [&](int thread, int first, int last) {
      for (int i = first; i < last; ++i) owner[i] = thread;
    });
    EXPECT_TRUE(std::is_sorted(owner.begin(), owner.end()));
    EXPECT_EQ(std::count(owner.begin(), owner.end(), -1), 0);
  }
}

}  // namespace
}  // namespace convoy
