// Tests how net files write transposed convolutions and resized maps, and which dense layers become stages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "nets/graph/net.hpp"
#include "tests/support/graph_net.hpp"

namespace convoy {
namespace {

constexpr const char* kStart = "name: test\ninput: {channels: 3, height: 12, width: 10}\nlayers:\n";
constexpr const char* kFirst = "  - {name: c, type: conv, filters: 6, kernel: 3}\n";  // maps of 10x8
constexpr const char* kLast = "  - {name: out, type: dense, units: 4}\n  - {name: loss, type: softmax_cross_entropy}\n";

std::string file_with(const std::string& layers) { return kStart + layers + kLast; }
Net net_of_layers(const std::string& layers) { return parse_net(file_with(layers), "t.yaml"); }

TEST(SizesNets, AreWrittenAsTheyAreRead) {
  const Net net = parse_net(kSizesNet, "sizes.yaml");
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(net));
  EXPECT_EQ(cut(again).trunk, cut(net).trunk);
  EXPECT_EQ(cut(again).dense, cut(net).dense);
}

TEST(SizesNets, SpreadMapsInFrontOfAConvolution) {
  const Net net = net_of_layers(
      std::string(kFirst) +
      "  - {name: t, type: conv_transpose, filters: 4, kernel: 3, stride: [2, 3], pad: [1, 0, 0, 2], output_pad: "
      "[1, 2], dilation: [2, 1], groups: 2}\n");
  EXPECT_EQ(net.layers[1].output, (FeatureShape{4, 23, 24}));  // (10-1)*2+5+1-1 rows, (8-1)*3+3+2-2 columns
  const std::vector<Stage> trunk = cut(net).trunk;
  ASSERT_EQ(trunk.size(), 3U);
  EXPECT_EQ(trunk[1].resizing, (Resizing{Resizing::Mode::spread, {20, 2.0, 0.0}, {24, 3.0, 0.0}}));
  EXPECT_EQ(trunk[2].conv.pad, (Padding{3, 2, 4, 0}));
  EXPECT_EQ(trunk[2].conv.stride_h * trunk[2].conv.stride_w, 1);
  EXPECT_EQ(output_shape(trunk[2], 1, 4), (Shape{1, 4, 23, 24}));
}

TEST(SizesNets, SpreadNothingWithoutAStride) {
  EXPECT_EQ(cut(net_of_layers(std::string(kFirst) + "  - {name: t, type: conv_transpose, filters: 4, kernel: 3}\n"))
                .trunk.size(),
            2U);
}

TEST(SizesNets, ReadSizesAndFactors) {
  const auto resizing = [](const std::string& fields) {
    const Net net = net_of_layers(std::string(kFirst) + "  - {name: r, type: resize, " + fields + "}\n");
    return std::get<Resizing>(net.layers[1].spec);
  };
  using Mode = Resizing::Mode;
  EXPECT_EQ(resizing("size: [5, 16]"), (Resizing{Mode::nearest, {5, 2.0, 0.0}, {16, 0.5, 0.0}}));
  EXPECT_EQ(resizing("size: [5, 16], mode: bilinear"), (Resizing{Mode::linear, {5, 2.0, 0.5}, {16, 0.5, -0.25}}));
  EXPECT_EQ(resizing("size: [19, 15], mode: bilinear, align_corners: true"),
            (Resizing{Mode::linear, {19, 0.5, 0.0}, {15, 0.5, 0.0}}));
  EXPECT_EQ(resizing("size: 1, mode: bilinear, align_corners: true"),
            (Resizing{Mode::linear, {1, 0.0, 0.0}, {1, 0.0, 0.0}}));
  // The places follow from the factor, not from the extents.
  EXPECT_EQ(resizing("factor: [0.75, 1.1]"), (Resizing{Mode::nearest, {7, 1.0 / 0.75, 0.0}, {8, 1.0 / 1.1, 0.0}}));
  EXPECT_EQ(resizing("size: 4, step: [2, 1.5], start: [0.5, -1]"),
            (Resizing{Mode::nearest, {4, 2.0, 0.5}, {4, 1.5, -1.0}}));
}

TEST(SizesNets, MakeDenseLayersInFrontOfNormsStages) {
  const Cut parts = cut(net_of_layers(std::string(kFirst) + "  - {name: f, type: flatten}\n"
                                                            "  - {name: d1, type: dense, units: 8}\n"
                                                            "  - {name: r1, type: relu}\n"
                                                            "  - {name: n1, type: batch_norm}\n"
                                                            "  - {name: d2, type: dense, units: 6}\n"
                                                            "  - {name: n2, type: batch_norm}\n"
                                                            "  - {name: r2, type: relu}\n"));
  ASSERT_EQ(parts.trunk.size(), 3U);
  EXPECT_FALSE(parts.is_dense(0));
  EXPECT_TRUE(parts.is_dense(1) && parts.is_dense(2));
  EXPECT_EQ(parts.trunk[1].conv.kernel_h, 10);
  EXPECT_EQ(parts.trunk[1].conv.kernel_w, 8);
  EXPECT_EQ(parts.trunk[1].after.size(), 2U);
  EXPECT_EQ(parts.trunk[2].after.size(), 2U);
  ASSERT_EQ(parts.heads.size(), 1U);
  EXPECT_EQ(parts.heads[0].layers.size(), 2U);
  EXPECT_EQ(parts.heads[0].maps, (FeatureShape{6, 1, 1}));
}

TEST(SizesNets, MakeDenseLayersOfImagesStages) {
  const Cut parts =
      cut(net_of_layers("  - {name: d1, type: dense, units: 8}\n"
                        "  - {name: n1, type: batch_norm}\n"
                        "  - {name: d2, from: n1, type: dense, units: 8}\n"
                        "  - {name: s, from: [d2, d1], type: add}\n"));
  ASSERT_EQ(parts.trunk.size(), 3U);
  EXPECT_EQ(parts.trunk[0].conv.kernel_h, 12);
  EXPECT_TRUE(parts.is_dense(0));
}

TEST(SizesNets, MakeStagesOfDenseLayersThatSeveralHeadsRead) {
  for (const bool convolves : {true, false}) {
    const Cut parts = cut(net_of_layers((convolves ? std::string(kFirst) : "") +
                                        "  - {name: d1, type: dense, units: 8}\n"
                                        "  - {name: r1, type: relu}\n"
                                        "  - {name: d2, type: dense, units: 4}\n"
                                        "  - {name: side, type: softmax_cross_entropy, weight: 0.5}\n"
                                        "  - {name: d3, from: r1, type: dense, units: 6}\n"));
    ASSERT_EQ(parts.heads.size(), 2U);
    EXPECT_EQ(parts.heads[0].layers.back().name, "side");
    EXPECT_EQ(parts.heads[0].layers.front().name, "d2");
    EXPECT_EQ(parts.heads[1].layers.front().name, "d3");
    EXPECT_EQ(parts.heads[1].layers.size(), 3U);
    const std::size_t shared = convolves ? 1 : 0;
    ASSERT_EQ(parts.trunk.size(), shared + 3);  // and two stages that copy its maps
    EXPECT_TRUE(parts.is_dense(shared));
    EXPECT_EQ(parts.trunk[shared].after, (std::vector<ChannelLayer>{Activation::relu}));
    EXPECT_EQ(outputs_of(parts.trunk).size(), 2U);
  }
}

TEST(SizesNets, LetSeveralHeadsReadFlattenedMaps) {
  const Cut parts = cut(net_of_layers(std::string(kFirst) + "  - {name: f, type: flatten}\n"
                                                            "  - {name: d2, type: dense, units: 4}\n"
                                                            "  - {name: side, type: squared_error}\n"
                                                            "  - {name: d3, from: f, type: dense, units: 6}\n"));
  ASSERT_EQ(parts.heads.size(), 2U);
  for (const CutHead& head : parts.heads) EXPECT_EQ(head.maps, (FeatureShape{6, 10, 8}));
}

TEST(SizesNets, LeaveOtherDenseLayersToTheHead) {
  const Cut parts = cut(net_of_layers(std::string(kFirst) + "  - {name: d1, type: dense, units: 8}\n"
                                                            "  - {name: r1, type: relu}\n"));
  EXPECT_EQ(parts.trunk.size(), 1U);
  EXPECT_EQ(parts.heads[0].layers.size(), 4U);
}

TEST(WeightOrders, AreTheirOwnInverse) {
  std::vector<float> weights(2 * 3 * 4 * 2 * 5);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  const std::vector<float> other = reordered(weights, {2, 3, 4, 2, 5});
  EXPECT_EQ(reordered(other, {2, 4, 3, 2, 5}), weights);
  // Filter 5, the second of group 1, channel 2 of its group, row 0, column 3 there.
  EXPECT_EQ(other[((5 * 3 + 2) * 2 + 0) * 5 + 3], weights[((5 * 4 + 1) * 2 + 1) * 5 + 1]);
}

struct BadSizes {
  std::string name;
  std::string layer;
  std::string says;
};

void PrintTo(const BadSizes& bad, std::ostream* out) { *out << bad.name; }

class BadSizesNets : public testing::TestWithParam<BadSizes> {};

TEST_P(BadSizesNets, AreRefusedWithPlaceAndReason) {
  const std::string layers = std::string(kFirst) + "  - {name: x, type: " + GetParam().layer + "}\n";
  EXPECT_THAT([&] { cut(net_of_layers(layers)); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("t.yaml:5: layer x"), testing::HasSubstr(GetParam().says))));
}

INSTANTIATE_TEST_SUITE_P(
    Layers, BadSizesNets,
    testing::Values(
        BadSizes{"Same", "conv_transpose, filters: 4, kernel: 3, pad: same", "pad is 'same'"},
        BadSizes{"CutOffBeyondTheKernel", "conv_transpose, filters: 4, kernel: 3, pad: 3",
                 "pad cuts off 3 3 3 3; expected less than the kernel, 3x3"},
        BadSizes{"MoreThanTheStride", "conv_transpose, filters: 4, kernel: 3, stride: 2, output_pad: 2",
                 "output_pad is [2, 2]; expected less than the stride or the dilation"},
        BadSizes{"UnequalGroups", "conv_transpose, filters: 4, kernel: 3, groups: 4", "groups is 4"},
        BadSizes{"HugeStride", "conv_transpose, filters: 4, kernel: 3, stride: 2000", "stride"},
        BadSizes{"HugeSpread", "conv_transpose, filters: 4, kernel: 3, stride: 1024", "stride spreads maps of 6x10x8"},
        BadSizes{"NeitherSizeNorFactor", "resize", "it has size and factor, or neither"},
        BadSizes{"SizeAndFactor", "resize, size: 3, factor: 2", "it has size and factor, or neither"},
        BadSizes{"UnknownMode", "resize, size: 3, mode: cubic", "mode is 'cubic'"},
        BadSizes{"FactorAndStep", "resize, factor: 2, step: 1", "step is given beside align_corners or factor"},
        BadSizes{"FactorAndCorners", "resize, factor: 2, align_corners: true", "factor is given beside align_corners"},
        BadSizes{"NothingLeft", "resize, factor: 0.05", "factor 0.05 leaves nothing of 10 rows or columns"},
        BadSizes{"NoSize", "resize, size: 0", "size"}, BadSizes{"StepOfNan", "resize, size: 3, step: .nan", "step"},
        BadSizes{"HugeSize", "resize, size: 1000000", "it has 6000000000000 outputs"},
        BadSizes{"UnknownApproximation", "gelu, approximate: erf", "approximate is 'erf'"},
        BadSizes{"CeluOfNothing", "celu, alpha: 0", "alpha"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
