// Tests how net files write dilated convolutions, norms of each sample, slopes of channels and larger maps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "nets/graph/net.hpp"
#include "tests/support/graph_net.hpp"

namespace convoy {
namespace {

constexpr const char* kBegin = "name: test\ninput: {channels: 3, height: 12, width: 10}\nlayers:\n";
constexpr const char* kConvolution = "  - {name: c, type: conv, filters: 6, kernel: 3}\n";
constexpr const char* kEnd = "  - {name: out, type: dense, units: 4}\n  - {name: loss, type: softmax_cross_entropy}\n";

std::string file_of(const std::string& layers) { return kBegin + layers + kEnd; }

TEST(NormNets, AreWrittenAsTheyAreRead) {
  const Net net = parse_net(kNormsNet, "norms.yaml");
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(net));
  EXPECT_EQ(cut(again).trunk, cut(net).trunk);
  EXPECT_EQ(cut(again).inits, cut(net).inits);
  EXPECT_EQ(cut(again).lists, cut(net).lists);
}

TEST(NormNets, HaveTheParametersOfTheirLayers) {
  const Net net = parse_net(file_of(std::string(kConvolution) + "  - {name: n, type: group_norm, groups: 2}\n"
                                                                "  - {name: p, type: prelu, slope: 0.5}\n"
                                                                "  - {name: m, type: layer_norm, affine: false}\n"),
                            "t.yaml");
  EXPECT_THAT(tensor_sizes(net), testing::ElementsAre(6 * 27, 6, 6, 6, 6, 4 * 480, 4));
  std::vector<std::string> names;
  for (const Stage& stage : cut(net).trunk) {
    for (const ParameterSpec& each : parameters_of(stage, 6)) names.push_back(each.name);
  }
  EXPECT_THAT(names, testing::ElementsAre("c.weight", "c.bias", "n.weight", "n.bias", "p.weight"));
}

TEST(NormNets, BeginWithTheirSlopesAndWithoutAnEffectOfFactors) {
  const Cut parts = cut(parse_net(file_of(std::string(kConvolution) + "  - {name: p, type: prelu, slope: 0.5}\n" +
                                          "  - {name: n, type: instance_norm, freeze: true}\n"),
                                  "t.yaml"));
  ASSERT_EQ(parts.trunk.size(), 6U);
  EXPECT_EQ(parts.inits[0].kind, Initialisation::Kind::he);  // as in front of a ReLU
  EXPECT_EQ(parts.inits[3], (Initialisation{Initialisation::Kind::constant, 0.5}));
  EXPECT_EQ(parts.inits[5], (Initialisation{Initialisation::Kind::constant, 1.0}));
  EXPECT_EQ(parts.trunk[3].conv.rate, 1.0F);
  EXPECT_EQ(parts.trunk[5].conv.rate, 0.0F);
}

TEST(NormNets, PadDilatedKernelsToTheSameExtent) {
  const Net net = parse_net(
      file_of("  - {name: c, type: conv, filters: 5, kernel: [3, 2], pad: same, dilation: [2, 4], stride: [1, 2]}\n"),
      "t.yaml");
  EXPECT_EQ(net.layers[0].output, (FeatureShape{5, 12, 5}));
  const auto& conv = std::get<Convolution>(net.layers[0].spec);
  EXPECT_EQ(conv.pad, (Padding{2, 1, 2, 2}));
}

TEST(NormNets, PoolWithGapsBetweenElements) {
  const Net net =
      parse_net(file_of("  - {name: c, type: conv, filters: 5, kernel: 1}\n"
                        "  - {name: p, type: max_pool, kernel: [3, 2], stride: [1, 2], dilation: [2, 3], pad: same}\n"),
                "t.yaml");
  EXPECT_EQ(net.layers[1].output, (FeatureShape{5, 12, 5}));
  const Pooling expected{.kernel_h = 3,
                         .kernel_w = 2,
                         .stride_h = 1,
                         .stride_w = 2,
                         .pad = {2, 1, 2, 1},
                         .dilation_h = 2,
                         .dilation_w = 3};
  EXPECT_EQ(std::get<Pooling>(net.layers[1].spec), expected);
  EXPECT_EQ(std::get<Pooling>(parse_net(to_yaml(net), "again.yaml").layers[1].spec), expected);
}

TEST(NormNets, DropWholeMaps) {
  const Net net = parse_net(
      file_of(std::string(kConvolution) + "  - {name: d, type: dropout, rate: 0.25, spatial: true}\n"), "t.yaml");
  EXPECT_EQ(std::get<Dropout>(net.layers[1].spec), (Dropout{0.25F, 0, true}));
  EXPECT_EQ(to_yaml(parse_net(to_yaml(net), "again.yaml")), to_yaml(net));
  EXPECT_EQ(cut(net).trunk[0].after, (std::vector<ChannelLayer>{Dropout{0.25F, 0, true}}));
}

struct BadLayers {
  std::string name;
  std::string layers;
  std::string says;
};

void PrintTo(const BadLayers& bad, std::ostream* out) { *out << bad.name; }

class BadNormNets : public testing::TestWithParam<BadLayers> {};

TEST_P(BadNormNets, AreRefusedWithPlaceAndReason) {
  EXPECT_THAT([&] { cut(parse_net(file_of(GetParam().layers), "t.yaml")); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("t.yaml:"), testing::HasSubstr(GetParam().says))));
}

INSTANTIATE_TEST_SUITE_P(
    Layers, BadNormNets,
    testing::Values(
        BadLayers{"NoDilation", "  - {name: c, type: conv, filters: 5, kernel: 3, dilation: 0}\n", "layer c: dilation"},
        BadLayers{"DilatedBeyondTheMap", "  - {name: c, type: conv, filters: 5, kernel: 3, dilation: 5}\n",
                  "layer c: the dilated kernel of 11x11 does not fit into its input of 12x10"},
        BadLayers{"PadBeyondTheDilatedKernel",
                  "  - {name: c, type: conv, filters: 5, kernel: 3, dilation: 2, pad: 5}\n",
                  "is not smaller than the dilated kernel of 5x5"},
        BadLayers{"DilatedAverage",
                  std::string(kConvolution) + "  - {name: p, type: average_pool, kernel: 2, dilation: 2}\n",
                  "layer p: dilation"},
        BadLayers{"DilatedPoolingBeyondTheMap",
                  std::string(kConvolution) + "  - {name: p, type: max_pool, kernel: 3, dilation: 5}\n",
                  "layer p: the dilated kernel of 11x11 does not fit into its input of 10x8"},
        BadLayers{"DilatedPoolingOfPadding",
                  std::string(kConvolution) +
                      "  - {name: p, type: max_pool, kernel: 2, stride: 1, dilation: [11, 1], pad: [2, 0]}\n",
                  "layer p: dilation is [11, 1], so that a window has no element of its input of 10x8"},
        BadLayers{"GroupsThatAreUnequal", std::string(kConvolution) + "  - {name: n, type: group_norm, groups: 4}\n",
                  "groups is 4; expected a number that divides its 6 input channels"},
        BadLayers{"NormWithoutGroups", std::string(kConvolution) + "  - {name: n, type: group_norm}\n",
                  "layer n: groups"},
        BadLayers{"FactorMissing", std::string(kConvolution) + "  - {name: u, type: upsample}\n", "layer u: factor"},
        BadLayers{"UnknownMode", std::string(kConvolution) + "  - {name: u, type: upsample, factor: 2, mode: cubic}\n",
                  "mode is 'cubic'; expected nearest or bilinear"},
        BadLayers{"TooLargeMaps",
                  std::string(kConvolution) + "  - {name: u, type: upsample, factor: 1024}\n"
                                              "  - {name: v, type: upsample, factor: 1024}\n",
                  "factor makes maps of"},
        BadLayers{"FreezeWithoutWeights",
                  std::string(kConvolution) + "  - {name: n, type: layer_norm, affine: false, freeze: true}\n",
                  "layer n: freeze"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace convoy
