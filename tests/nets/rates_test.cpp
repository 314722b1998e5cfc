// Tests frozen layers, learning rates by layer, and options of images and classes in net files.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {
namespace {

/// A net of these layers (YAML list items) on a 3 x 12 x 10 input, followed by a dense layer and a loss.
std::string net_with(const std::string& layers, const std::string& more = "") {
  return "name: test\ninput: {channels: 3, height: 12, width: 10}\nlayers:\n" + layers +
         "  - {name: out, type: dense, units: 4}\n  - {name: loss, type: softmax_cross_entropy}\n" + more;
}

/// The factor of each layer's learning rate, in the order of the layers, of those with weights.
std::vector<float> rates_of(const Net& net) {
  std::vector<float> rates;
  for (const Layer& layer : net.layers) {
    if (has_weights(layer)) rates.push_back(layer.rate);
  }
  return rates;
}

constexpr const char* kThreeLayers =
    "  - {name: conv1, type: conv, filters: 5, kernel: 3}\n"
    "  - {name: bn1, type: batch_norm}\n"
    "  - {name: conv2, type: conv, filters: 4, kernel: 3}\n";

TEST(NetRates, AreSetByLayerByPatternAndByOverride) {
  const auto rates = [](const std::string& training, const Overrides& overrides = {}) {
    const Net net = parse_net(net_with(kThreeLayers, training), "t.yaml", overrides);
    const Net again = parse_net(to_yaml(net), "again.yaml");
    EXPECT_EQ(to_yaml(again), to_yaml(net));
    EXPECT_EQ(cut(again).trunk, cut(net).trunk);
    EXPECT_EQ(rates_of(again), rates_of(net));
    return rates_of(net);
  };
  using Rates = std::vector<float>;
  EXPECT_EQ(rates(""), (Rates{1, 1, 1, 1}));
  EXPECT_EQ(rates("training: {freeze: conv1}\n"), (Rates{0, 1, 1, 1}));
  EXPECT_EQ(rates("training: {freeze: [\"conv?\", bn1]}\n"), (Rates{0, 0, 0, 1}));
  EXPECT_EQ(rates("training: {rate: {\"*\": 0.5, out: 4}, freeze: [\"*1\"]}\n"), (Rates{0, 0, 0.5, 4}));
  EXPECT_EQ(rates("", {"conv1.freeze=true", "out.rate=10"}), (Rates{0, 1, 1, 10}));
  EXPECT_EQ(rates("", {"conv*.freeze=true"}), (Rates{0, 1, 0, 1}));
  EXPECT_EQ(rates("", {"*1.rate=0.25", "conv1.rate=2"}), (Rates{2, 0.25, 1, 1}));
  EXPECT_EQ(rates("", {"training.freeze=[conv*, bn*]", "training.rate.out=3"}), (Rates{0, 0, 0, 3}));
  EXPECT_EQ(rates("", {"training.freeze=[conv*]", "conv2.freeze=false"}), (Rates{0, 1, 1, 1}))
      << "the layer's own counts";
}

TEST(NetRates, SayThatAPatternNeedsQuotes) {
  const auto message = [](const std::string& freeze) -> std::string {
    try {
      parse_net(net_with(kThreeLayers), "t.yaml", {"training.freeze=" + freeze});
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("[*1]").find("a pattern that begins with * needs double quotes"), std::string::npos);
  EXPECT_EQ(message("[conv1").find("pattern"), std::string::npos);
  EXPECT_EQ(message("[\"*1\"]"), "");
}

TEST(NetRates, ReachStagesAndHeads) {
  const Net net = parse_net(net_with(kThreeLayers), "t.yaml", {"*1.freeze=true", "conv2.rate=0.5", "out.rate=2"});
  const Cut parts = cut(net);
  ASSERT_EQ(parts.trunk.size(), 2U);
  EXPECT_EQ(parts.trunk[0].conv.rate, 0.0F);
  EXPECT_TRUE(std::get<BatchNorm>(parts.trunk[0].after[0]).frozen());
  EXPECT_EQ(parts.trunk[1].conv.rate, 0.5F);
  EXPECT_EQ(parts.heads[0].layers[0].rate, 2.0F);
  EXPECT_EQ(needed_gradients(parts.trunk), (std::vector<bool>{false, true}));
  EXPECT_FALSE(needs_input_gradient(parts.trunk, 1));
  EXPECT_EQ(batch_norms(parts.trunk[0]), 0);
  EXPECT_TRUE(has_batch_norm(parts.trunk[0]));
  for (const ParameterSpec& each : parameters_of(parts.trunk[0], 5)) EXPECT_FALSE(each.trained) << each.name;
}

TEST(NetOptions, OfImagesAndClassesSurviveWriting) {
  const Net net = parse_net(net_with("  - {name: c, type: conv, filters: 5, kernel: 3}\n",
                                     "augment: {flip: true, resized_crop: 0.25, brightness: 0.4, contrast: 0.3, "
                                     "saturation: 0.2, cutout: 4}\n"),
                            "t.yaml", {"input.resize=16", "loss.class_weights=[1, 2.5, 0.5, 1]"});
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(net));
  EXPECT_EQ(again.augment, net.augment);
  EXPECT_EQ(again.augment.resized_crop, 0.25);
  EXPECT_EQ(again.augment.cutout, 4);
  EXPECT_EQ(again.resize, 16);
  EXPECT_EQ(std::get<SoftmaxCrossEntropy>(again.layers.back().spec).class_weights,
            (std::vector<float>{1.0F, 2.5F, 0.5F, 1.0F}));
}

/// A net with other outputs has other classes than the file names.
TEST(NetOutputs, ThatAreSetHaveNoNamesOfOthers) {
  const std::string text = net_with(kThreeLayers, "classes: [a, b, c, d]\n");
  const Net net = parse_net(text, "t.yaml");
  EXPECT_EQ(layers_of_outputs(net), (std::vector<std::string>{"out"}));
  EXPECT_EQ(overrides_for_outputs(net, 7), (Overrides{"out.units=7"}));
  const Net other = parse_net(text, "t.yaml", overrides_for_outputs(net, 7));
  EXPECT_EQ(other.classes, 7);
  EXPECT_TRUE(other.class_names.empty());
  EXPECT_EQ(parse_net(text, "t.yaml", overrides_for_outputs(net, 4)).class_names.size(), 4U);
}

}  // namespace
}  // namespace convoy
