#include "nets/graph/net.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <regex>
#include <sstream>

#include "core/random.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

const std::string kSource = source_folder();

/// A net of these layers (YAML list items) on a 3 x 12 x 10 input, followed by a dense layer and a loss.
std::string net_of(const std::string& layers, const std::string& more = "") {
  return "name: test\ninput: {channels: 3, height: 12, width: 10}\nlayers:\n" + layers +
         "  - {name: out, type: dense, units: 4}\n  - {name: loss, type: softmax_cross_entropy}\n" + more;
}

FeatureShape output_of(const Net& net, const std::string& name) {
  for (const Layer& layer : net.layers) {
    if (layer.name == name) return layer.output;
  }
  return {};
}

FeatureShape shape_after(const std::string& layer) {
  return output_of(parse_net(net_of("  - {name: c, type: conv, filters: 5, " + layer + "}\n"), "t.yaml"), "c");
}

TEST(NetShapes, OfConvolutions) {
  EXPECT_EQ(shape_after("kernel: 3"), (FeatureShape{5, 10, 8}));
  EXPECT_EQ(shape_after("kernel: 3, pad: 1"), (FeatureShape{5, 12, 10}));
  EXPECT_EQ(shape_after("kernel: 5, pad: same"), (FeatureShape{5, 12, 10}));
  EXPECT_EQ(shape_after("kernel: 4, pad: same"), (FeatureShape{5, 12, 10}));
  EXPECT_EQ(shape_after("kernel: 3, stride: 2, pad: same"), (FeatureShape{5, 6, 5}));
  EXPECT_EQ(shape_after("kernel: 5, stride: 3, pad: same"), (FeatureShape{5, 4, 4}));
  EXPECT_EQ(shape_after("kernel: 3, pad: valid"), (FeatureShape{5, 10, 8}));
  EXPECT_EQ(shape_after("kernel: [2, 5], stride: [1, 2], pad: [1, 0]"), (FeatureShape{5, 13, 3}));
  EXPECT_EQ(shape_after("kernel: 4, pad: [1, 2, 0, 3]"), (FeatureShape{5, 10, 12}));
  EXPECT_EQ(shape_after("kernel: [12, 10]"), (FeatureShape{5, 1, 1}));
}

TEST(NetShapes, SamePaddingPutsTheOddOneBehind) {
  const Net net = parse_net(net_of("  - {name: c, type: conv, filters: 5, kernel: 4, pad: same}\n"), "t.yaml");
  EXPECT_EQ(std::get<Convolution>(net.layers[0].spec).pad, (Padding{1, 1, 2, 2}));
}

TEST(NetGraph, LayersMayComeInAnyOrder) {
  const Net net = parse_net(R"(name: test
input: {channels: 1, height: 8, width: 8}
layers:
  - {name: loss, type: softmax_cross_entropy, from: out}
  - {name: out, type: dense, units: 3, from: r}
  - {name: r, type: relu, from: c}
  - {name: c, type: conv, filters: 2, kernel: 3, from: input}
)",
                            "t.yaml");
  std::vector<std::string> names;
  for (const Layer& layer : net.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"c", "r", "out", "loss"}));
  EXPECT_EQ(net.layers[0].inputs, std::vector<int>{kNetInput});
  EXPECT_EQ(net.layers[2].inputs, std::vector<int>{1});
  EXPECT_EQ(net.layers[0].line, 7);
  EXPECT_EQ(net.classes, 3);
}

TEST(NetOverrides, ReplaceAndAddFields) {
  const std::string text = net_of("  - {name: c, type: conv, filters: 5, kernel: 3}\n", "training: {batch: 8}\n");
  const Net net = parse_net(text, "t.yaml",
                            {"c.filters=7", "c.pad=same", "training.batch=16", "training.schedule.kind=step",
                             "training.schedule.every=2", "augment.flip=true", "input.height=20"});
  EXPECT_EQ(output_of(net, "c"), (FeatureShape{7, 20, 10}));
  EXPECT_EQ(net.training.batch, 16);
  EXPECT_EQ(net.training.schedule.kind, Schedule::Kind::step);
  EXPECT_EQ(net.training.schedule.every, 2);
  EXPECT_TRUE(net.augment.flip);
}

TEST(NetText, RoundTrip) {
  const std::string layers = R"(  - {name: c1, type: conv, filters: 5, kernel: [3, 2], stride: [1, 2], pad: same}
  - {name: a, type: sigmoid}
  - {name: p, type: average_pool, kernel: 3, stride: 2, pad: 1}
  - {name: d1, type: dropout, rate: 0.3}
  - {name: c2, type: conv, filters: 6, kernel: 3, pad: [1, 0, 2, 1]}
  - {name: t, type: tanh}
  - {name: m, type: max_pool, kernel: 2}
  - {name: f, type: flatten}
  - {name: h, type: dense, units: 9}
  - {name: r, type: relu}
  - {name: d2, type: dropout, rate: 0.5}
)";
  const Net net = parse_net(net_of(layers,
                                   "training: {learning_rate: 0.1, momentum: 0.3, schedule: {kind: step, every: 3, "
                                   "factor: 0.2}}\naugment: {flip: yes, crop: 2}\n"),
                            "t.yaml");
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(net));
  EXPECT_EQ(cut(again).trunk, cut(net).trunk);
  EXPECT_EQ(parameter_count(again), parameter_count(net));
}

TEST(NetGraph, KnowsTheTensorsThatAreTrained) {
  const Net net = parse_net(net_of(R"(  - {name: c1, type: conv, filters: 6, kernel: [3, 1], bias: false}
  - {name: b, type: batch_norm}
  - {name: c2, type: conv, filters: 4, kernel: 1, groups: 2}
)"),
                            "t.yaml");
  // c1 has no biases; out reads 4 maps of 10 x 10.
  EXPECT_THAT(tensor_sizes(net), testing::ElementsAre(6 * 3 * 3, 6, 6, 4 * 3, 4, 4 * 400, 4));
  EXPECT_EQ(parameter_count(net), 54U + 12 + 16 + 1604);
}

TEST(NetCut, StagesTakeTheirChannelLayers) {
  const Cut parts = cut(parse_net(net_of(R"(  - {name: c1, type: conv, filters: 5, kernel: 3}
  - {name: r, type: relu}
  - {name: p, type: max_pool, kernel: 2}
  - {name: d, type: dropout, rate: 0.3}
  - {name: c2, type: conv, filters: 6, kernel: 3}
  - {name: f, type: flatten}
  - {name: t, type: tanh}
)"),
                                  "t.yaml"));
  ASSERT_EQ(parts.trunk.size(), 2U);
  EXPECT_EQ(parts.trunk[0].after.size(), 3U);
  EXPECT_EQ(parts.trunk[1].after.size(), 0U);
  EXPECT_EQ(parts.trunk[1].channels, 5);
  EXPECT_EQ(parts.trunk[1].height, 5);
  EXPECT_EQ(parts.heads[0].maps, (FeatureShape{6, 3, 2}));
  EXPECT_EQ(parts.heads[0].layers.size(), 4U);  // flatten, tanh, dense, loss
}

TEST(NetCut, APerceptronHasNoTrunk) {
  const Cut parts =
      cut(parse_net(net_of("  - {name: h, type: dense, units: 8}\n  - {name: r, type: relu}\n"), "t.yaml"));
  EXPECT_TRUE(parts.trunk.empty());
  EXPECT_EQ(parts.heads[0].maps, (FeatureShape{3, 12, 10}));
}

TEST(NetSchedule, LearningRates) {
  TrainingOptions options{.epochs = 10, .learning_rate = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(options, 7.3), 0.1);
  options.schedule = {.kind = Schedule::Kind::step, .every = 2, .factor = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(options, 1.99), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 4.0), 0.025);
  options.schedule = {.kind = Schedule::Kind::cosine};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0.0), 0.1);
  EXPECT_NEAR(learning_rate(options, 5.0), 0.05, 1e-12);
  EXPECT_NEAR(learning_rate(options, 10.0), 0.0, 1e-12);
  options.schedule.warm_up = 2.0;
  EXPECT_NEAR(learning_rate(options, 0.0), 0.01, 1e-12);
  EXPECT_NEAR(learning_rate(options, 1.0), 0.055, 1e-12);
  EXPECT_NEAR(learning_rate(options, 2.0), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 6.0), 0.05, 1e-12);
  EXPECT_NEAR(learning_rate(options, 10.0), 0.0, 1e-12);
}

TEST(NetOptions, SurviveWriting) {
  const Net net = parse_net(net_of("  - {name: c, type: conv, filters: 5, kernel: 3, init: xavier}\n"
                                   "  - {name: d, type: dense, units: 4, init: {constant: 0.25}}\n",
                                   "training: {epochs: 9, schedule: {kind: step, every: 2, warm_up: 1.5}}\n"),
                            "t.yaml", {"loss.label_smoothing=0.1", "out.init=he"});
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(net));
  EXPECT_EQ(again.layers[0].init.kind, Initialisation::Kind::xavier);
  EXPECT_EQ(again.layers[1].init, (Initialisation{Initialisation::Kind::constant, 0.25}));
  EXPECT_EQ(again.training.schedule.warm_up, 1.5);
  EXPECT_EQ(std::get<SoftmaxCrossEntropy>(again.layers.back().spec).label_smoothing, 0.1F);
}

TEST(NetOptions, OfLayersAndOptimizersSurviveWriting) {
  const Net net = parse_net(net_of("  - {name: c, type: conv, filters: 5, kernel: 3, bias: false}\n"
                                   "  - {name: n, type: batch_norm, epsilon: 0.001, momentum: 0.2}\n"
                                   "  - {name: r, type: leaky_relu, slope: 0.25}\n"
                                   "  - {name: p, type: global_average_pool}\n",
                                   "training: {optimizer: adam, beta2: 0.99, epsilon: 0.001, clip: 2.5}\n"),
                            "t.yaml");
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(net));
  EXPECT_EQ(again.training.optimizer, Optimizer::adam);
  const Cut parts = cut(again);
  EXPECT_EQ(parts.moments, 2);
  ASSERT_EQ(parts.trunk.size(), 1U);
  EXPECT_EQ(parts.trunk[0].moments, 2);
  EXPECT_FALSE(parts.trunk[0].conv.bias);
  EXPECT_EQ(parts.heads[0].maps, (FeatureShape{5, 1, 1}));
  const std::vector<ChannelLayer> after{BatchNorm{"n", 0.001F, 0.2F}, Activation{Activation::Kind::leaky_relu, 0.25F},
                                        Pooling{.kind = PoolKind::average,
                                                .kernel_h = parts.trunk[0].height - 2,
                                                .kernel_w = parts.trunk[0].width - 2,
                                                .stride_h = parts.trunk[0].height - 2,
                                                .stride_w = parts.trunk[0].width - 2}};
  EXPECT_EQ(parts.trunk[0].after, after);
  // The parameters are those of 5 filters without bias, of the batch norm, and of the dense layer.
  EXPECT_EQ(parameter_count(again), 5U * 9U * static_cast<std::size_t>(again.input.channels) + 10U +
                                        6U * static_cast<std::size_t>(again.classes));
}

TEST(NetOptions, OfActivationsSurviveWriting) {
  using Kind = Activation::Kind;
  constexpr float kNone = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<std::string, Activation>> all = {
      {"type: clip, low: -1, high: 1.5", {Kind::clip, -1.0F, 1.5F}},
      {"type: clip, low: 0.25", {Kind::clip, 0.25F, kNone}},
      {"type: clip, high: 0.25", {Kind::clip, -kNone, 0.25F}},
      {"type: relu6", {Kind::clip, 0.0F, 6.0F}},
      {"type: hard_sigmoid", {Kind::hard_sigmoid, 1.0F / 6.0F, 0.5F}},
      {"type: hard_sigmoid, alpha: 0.2, beta: 0.25", {Kind::hard_sigmoid, 0.2F, 0.25F}},
      {"type: elu", {Kind::elu, 1.0F}},
      {"type: elu, alpha: 0.75", {Kind::elu, 0.75F}},
      {"type: selu", {Kind::selu}},
      {"type: softplus", {Kind::softplus}},
      {"type: silu", {Kind::silu}},
      {"type: hard_swish", {Kind::hard_swish}},
      {"type: gelu", {Kind::gelu}},
  };
  for (const auto& [text, activation] : all) {
    SCOPED_TRACE(text);
    const Net net =
        parse_net(net_of("  - {name: c, type: conv, filters: 5, kernel: 3}\n  - {name: a, " + text + "}\n"), "t.yaml");
    const Net again = parse_net(to_yaml(net), "again.yaml");
    EXPECT_EQ(to_yaml(again), to_yaml(net));
    const std::vector<ChannelLayer> after{activation};
    EXPECT_EQ(cut(again).trunk.at(0).after, after);
  }
}

TEST(NetOptions, MakeUpdates) {
  TrainingOptions options{.optimizer = Optimizer::adam, .momentum = 0.5, .beta2 = 0.75, .clip = 2.0};
  UpdateStep step = update_step(options, 0.125, 2, 8.0);
  EXPECT_EQ(step.learning_rate, 0.125F);
  EXPECT_EQ(step.correction1, 0.75F);
  EXPECT_EQ(step.correction2, 0.4375F);
  EXPECT_EQ(step.gradient_scale, 0.25F);
  EXPECT_EQ(update_step(options, 0.125, 2, 1.5).gradient_scale, 1.0F);
  options.clip = 0.0;
  EXPECT_EQ(update_step(options, 0.125, 2, 8.0).gradient_scale, 1.0F);
}

// ---- the shipped nets ----------------------------------------------------------------------------------------------

struct Shipped {
  std::string file;
  std::size_t parameters;
  double mega_flops;  ///< MFLOP of the convolutions and dense layers in a forward pass of one image
};

void PrintTo(const Shipped& shipped, std::ostream* out) { *out << shipped.file; }

class ShippedNets : public testing::TestWithParam<Shipped> {};

TEST_P(ShippedNets, HaveTheirPublishedSize) {
  const Net net = read_net(kSource + "/nets/" + GetParam().file + ".yaml");
  EXPECT_EQ(net.name, GetParam().file);
  EXPECT_EQ(parameter_count(net), GetParam().parameters);
  const Cut parts = cut(net);
  double flops = 0.0;
  for (const Stage& stage : parts.trunk) flops += conv_flops(stage, 1, stage.conv.filters);
  for (const CutHead& head : parts.heads) {
    int inputs = head.maps.size();
    for (const Layer& layer : head.layers) {
      const auto* dense = std::get_if<Dense>(&layer.spec);
      if (dense == nullptr) continue;
      flops += 2.0 * inputs * dense->units;
      inputs = dense->units;
    }
  }
  EXPECT_NEAR(flops / 1e6, GetParam().mega_flops, 0.05);
  // The comment in the file must give the same number of parameters, on one line or over two.
  std::ifstream stream(net.file);
  std::ostringstream text;
  text << stream.rdbuf();
  const std::string comment = std::regex_replace(text.str(), std::regex("\n# "), " ");
  EXPECT_NE(comment.find(fmt::format("{} parameters", GetParam().parameters)), std::string::npos);
}

// The expected numbers are worked out by hand. With K1 and K2 filters, the nets have K1 (75 + 1) + K2 (25 K1 + 1) +
// 10 (64 K2 + 1) parameters and need 2 (75 K1 1024 + 25 K1 K2 256 + 640 K2) FLOP.
INSTANTIATE_TEST_SUITE_P(
    All, ShippedNets,
    testing::Values(Shipped{"resnet20", 269722, 81.10208}, Shipped{"vgg16e", 143667240, 39264.124928},
                    Shipped{"alexnet", 60965224, 1448.813632}, Shipped{"mobilenet", 4231976, 1137.480704},
                    Shipped{"squeezenet", 1248424, 1554.442304}, Shipped{"googlenet", 13378280, 3182.088},
                    Shipped{"resnet34", 21797672, 7327.522816}, Shipped{"resnet34-padded", 21623848, 7288.987648},
                    Shipped{"small-mlp", 153860 + 2 * 38612 + 1970, 0.464912},
                    Shipped{"medium-mlp", 307720 + 2 * 154056 + 3930, 1.237152},
                    Shipped{"big-mlp", 615440 + 2 * 615440 + 7850, 3.703616},
                    Shipped{"cifar10-50-500", 3800 + 625500 + 320010, 7.68 + 320.0 + 0.64},
                    Shipped{"cifar10-150-800", 11400 + 3000800 + 512010, 23.04 + 1536.0 + 1.024},
                    Shipped{"cifar10-300-1000", 22800 + 7501000 + 640010, 46.08 + 3840.0 + 1.28},
                    Shipped{"cifar10-500-1500", 38000 + 18751500 + 960010, 76.8 + 9600.0 + 1.92},
                    Shipped{"lenet", 520 + 25050 + 400500 + 5010, 0.576 + 3.2 + 0.8 + 0.01},
                    Shipped{"lenet-tanh", 520 + 25050 + 400500 + 5010, 0.576 + 3.2 + 0.8 + 0.01},
                    Shipped{"glyphs", 416 + 12832 + 100416 + 650, 0.6272 + 5.0176 + 0.200704 + 0.00128}),
    [](const auto& info) {
      std::string name = info.param.file;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(NetText, MutationsParseOrAreErrors) {
  std::ifstream stream(kSource + "/nets/lenet.yaml");
  std::ostringstream text;
  text << stream.rdbuf();
  Random random(1, 1);
  const std::string letters = " :{}[],-#&*!|>'\"%@`\n\t0129aeoz.";
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = text.str();
    for (std::uint32_t i = 1 + random.below(5); i > 0; --i) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(mutated.size()));
      const char letter = letters[random.below(static_cast<std::uint32_t>(letters.size()))];
      if (random.below(2) == 0)
        mutated[at] = letter;
      else
        mutated.insert(at, 1, letter);
    }
    try {
      cut(parse_net(mutated, "mutated.yaml"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(NetText, HoldsPatienceAndTheOptionsOfARun) {
  Net net = read_net(kSource + "/nets/lenet.yaml", {"training.patience=3"});
  EXPECT_EQ(net.training.patience, 3);
  EXPECT_EQ(read_net(kSource + "/nets/lenet.yaml").training.patience, 0);
  net.run = {{"data", "/some where/\"mnist\""}, {"slaves", "2"}};
  const Net again = parse_net(to_yaml(net), "again.yaml");
  EXPECT_EQ(again.training.patience, 3);
  EXPECT_EQ(again.run, net.run);
}

/// Fully convolutional nets have no dense layer, and one number for each class all the same.
TEST(NetGraph, MayEndWithMapsOfOnePixel) {
  const std::string head =
      "name: n\ninput: {channels: 3, height: 6, width: 6}\nlayers:\n"
      "  - {name: c, type: conv, filters: 10, kernel: 3}\n";
  const std::string loss = "  - {name: l, type: softmax_cross_entropy}\n";
  EXPECT_EQ(parse_net(head + "  - {name: p, type: global_average_pool}\n" + loss, "n.yaml").classes, 10);
  EXPECT_EQ(parse_net(head + "  - {name: p, type: max_pool, kernel: 4}\n" + loss, "n.yaml").classes, 10);
  EXPECT_EQ(parse_net(head + "  - {name: d, type: conv, filters: 7, kernel: 4}\n" + loss, "n.yaml").classes, 7);
}

}  // namespace
}  // namespace convoy
