// Tests which nets have a first dense layer that members can share, and the form that such a net gets.

#include "nets/graph/dense_slices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

/// A net of a convolution of 6 filters with 3x2 maps and of these layers, which end with a loss.
Cut cut_of(const std::string& layers) {
  return cut(
      parse_net("name: test\ninput: {channels: 1, height: 5, width: 4}\nlayers:\n"
                "  - {name: c, type: conv, filters: 6, kernel: 3}\n" +
                    layers + "  - {name: loss, type: softmax_cross_entropy}\n",
                "t.yaml"));
}

Cut shipped(const std::string& name) { return cut(read_net(source_folder() + "/nets/" + name)); }

TEST(DenseSlices, AreStagesAndASum) {
  const Cut whole = cut_of(
      "  - {name: r, type: relu}\n  - {name: f, type: flatten}\n  - {name: d, type: dense, units: 5, rate: 0.5}\n"
      "  - {name: s, type: tanh}\n  - {name: out, type: dense, units: 3}\n");
  const auto slices = slice_dense(whole, 4);
  ASSERT_TRUE(slices);
  EXPECT_EQ(slices->first, 1U);
  EXPECT_EQ(slices->channels, (std::vector<FilterRange>{{0, 1}, {1, 2}, {3, 1}, {4, 2}}));
  const std::vector<Stage>& trunk = slices->cut.trunk;
  ASSERT_EQ(trunk.size(), 6U);
  EXPECT_EQ(trunk[0], whole.trunk[0]);
  for (std::size_t s = 1; s < 5; ++s) {
    const FilterRange channels = slices->channels[s - 1];
    EXPECT_EQ(trunk[s].name, "d/" + std::to_string(s));
    EXPECT_EQ(trunk[s].from, (Sources{{0, channels}}));
    EXPECT_EQ(weight_shape(trunk[s], 5), (Shape{5, channels.count, 3, 2}));
    EXPECT_EQ(trunk[s].conv.bias, s == 1) << "the biases are added once";
    EXPECT_EQ(trunk[s].conv.rate, 0.5F);
    EXPECT_EQ(trunk[s].moments, whole.moments);
  }
  EXPECT_EQ(trunk[5].name, "d");
  EXPECT_EQ(reads_of(trunk, 5), (std::vector<Sources>{{{1, {0, 5}}}, {{2, {0, 5}}}, {{3, {0, 5}}}, {{4, {0, 5}}}}));
  EXPECT_EQ(outputs_of(trunk), std::vector<int>{5});
  const CutHead& head = slices->cut.heads[0];
  EXPECT_EQ(head.maps, (FeatureShape{5, 1, 1}));
  ASSERT_EQ(head.layers.size(), 3U);
  EXPECT_EQ(head.layers[0].name, "s");
}

TEST(DenseSlices, AreAMultipleOfTheMembersWhereTheirSumsAreFew) {
  const Cut few = shipped("cifar10-50-500.yaml");  // 10 units of 32000 inputs
  EXPECT_EQ(slices_for(few, 1), 0);
  EXPECT_EQ(slices_for(few, 2), 16);
  EXPECT_EQ(slices_for(few, 3), 15);
  EXPECT_EQ(slices_for(few, 7), 14);
  EXPECT_EQ(slices_for(few, 12), 12);
  EXPECT_EQ(slices_for(few, 256), 16);
  const Cut many = shipped("alexnet.yaml");  // 4096 units of 9216 inputs
  EXPECT_EQ(slices_for(many, 2), 2);
  EXPECT_EQ(slices_for(many, 7), 7);
  EXPECT_EQ(slices_for(cut_of("  - {name: d, type: dense, units: 2}\n"), 50), 6) << "a slice has a channel at least";
}

TEST(DenseSlices, AreNotMadeWhereTheyCannotBe) {
  const std::string dense = "  - {name: d, type: dense, units: 2}\n";
  EXPECT_TRUE(slice_dense(cut_of(dense), 6));
  for (const int count : {-3, 0, 1, 7}) EXPECT_FALSE(slice_dense(cut_of(dense), count)) << count;
  const std::vector<std::string> others{
      "  - {name: p, type: global_average_pool}\n" + dense,
      "  - {name: f, type: flatten}\n  - {name: o, type: dropout, rate: 0.5}\n" + dense,
      "  - {name: p, type: global_average_pool}\n"};
  for (const std::string& layers : others) {
    EXPECT_EQ(slices_for(cut_of(layers), 2), 0) << layers;
    EXPECT_FALSE(slice_dense(cut_of(layers), 2)) << layers;
  }
  EXPECT_EQ(slices_for(shipped("resnet20.yaml"), 4), 0);
}

TEST(DenseSlices, HaveObstacles) {
  const std::string dense = "  - {name: d, type: dense, units: 2}\n";
  EXPECT_EQ(obstacle_to_slices(cut_of(dense), 2), "");
  EXPECT_EQ(obstacle_to_slices(cut_of(dense), 1), "there is one member");
  EXPECT_EQ(obstacle_to_slices(shipped("big-mlp.yaml"), 2), "the net has no convolution");
  EXPECT_EQ(obstacle_to_slices(shipped("googlenet.yaml"), 2), "the net has several losses");
  EXPECT_EQ(
      obstacle_to_slices(cut_of("  - {name: o, type: dropout, rate: 0.5}\n  - {name: f, type: flatten}\n" + dense), 2),
      "");
  EXPECT_EQ(
      obstacle_to_slices(cut_of("  - {name: f, type: flatten}\n  - {name: o, type: dropout, rate: 0.5}\n" + dense), 2),
      "layer o is in front of it");
  EXPECT_THAT(obstacle_to_slices(cut_of(dense + "  - {name: b, type: batch_norm}\n"), 2),
              testing::HasSubstr("is a stage itself"));
  EXPECT_THAT(obstacle_to_slices(cut_of("  - {name: p, type: global_average_pool}\n" + dense), 2),
              testing::HasSubstr("layer d reads single numbers"));
  EXPECT_EQ(obstacle_to_slices(cut_of("  - {name: e, type: conv, filters: 1, kernel: 1}\n" + dense), 2),
            "layer d reads a single channel");
}

}  // namespace
}  // namespace convoy
