// Tests trunks with branches, sums and concatenated channels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "model/heads.hpp"
#include "nets/graph/net.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/plain_trunk.hpp"
#include "tests/support/shipped_nets.hpp"

namespace convoy {
namespace {

constexpr int kBatch = 3;
constexpr Pass kTraining{.training = true, .seed = 5};

Net graph() { return parse_net(kGraphNet, "graph.yaml"); }
Net gates() { return parse_net(kGatesNet, "gates.yaml"); }
Net norms() { return parse_net(kNormsNet, "norms.yaml"); }

Tensor drawn(const Shape& shape, std::uint64_t stream) {
  Tensor tensor(shape);
  Random random(8, stream);
  for (float& value : tensor.span()) value = random.uniform(-1.0F, 1.0F);
  return tensor;
}

/// A trunk with the initial weights of a run, random biases, and a loss that is linear in its outputs.
class GraphOn {
 public:
  explicit GraphOn(const std::string& device, const Net& net = graph(), int batch = kBatch)
      : cut_(cut(net)),
        device_(make_device(device, {.threads = 2})),
        images_(noise_images({batch, net.input.channels, net.input.height, net.input.width}, 8, 1)),
        trunk_(cut_.trunk, images_.shape(), *device_),
        start_(off_zero(initial_trunk(cut_, 3))) {
    // Slopes of 1 have no kink, across which differences would be no derivatives.
    for (std::size_t stage = 0; stage < start_.size(); ++stage) {
      const bool slopes = cut_.has_list(stage) && !cut_.trunk[stage].conv.bias;
      if (slopes) std::ranges::fill(start_[stage].weights().span(), 1.0F);
    }
    trunk_.load(start_);
    for (const CutHead& head : cut_.heads) {
      slopes_.push_back(drawn({batch, head.maps.channels, head.maps.height, head.maps.width}, 2 + slopes_.size()));
    }
  }

  Tensor maps() { return trunk_.forward(images_, kTraining); }
  double loss() {
    trunk_.forward(images_, kTraining);
    double sum = 0.0;
    for (std::size_t output = 0; output < slopes_.size(); ++output) {
      const Tensor& maps = trunk_.output(output);
      for (std::size_t i = 0; i < maps.size(); ++i) {
        sum += static_cast<double>(maps.data()[i]) * slopes_[output].data()[i];
      }
    }
    return sum;
  }
  /// The gradients by all parameters, found as the change of the parameters in an update with a learning rate of 1.
  std::vector<ShardState> gradients() {
    loss();
    std::vector<const Tensor*> slopes;
    for (const Tensor& each : slopes_) slopes.push_back(&each);
    trunk_.backward(slopes);
    trunk_.update({.learning_rate = 1.0F});
    std::vector<ShardState> gradients = trunk_.snapshot();
    for (std::size_t s = 0; s < gradients.size(); ++s) {
      for (std::size_t p = 0; p < gradients[s].parameters.size(); ++p) {
        Tensor& moved = gradients[s].parameters[p].value;
        const Tensor& before = start_[s].parameters[p].value;
        for (std::size_t i = 0; i < moved.size(); ++i) moved.data()[i] = before.data()[i] - moved.data()[i];
      }
    }
    trunk_.load(start_);
    return gradients;
  }
  /// The derivative of the loss by one value: central differences at two steps, whose combination has no error of the
  /// third derivative (Richardson, 1911), which is large behind norms.
  double difference(std::size_t stage, std::size_t parameter, std::size_t value) {
    constexpr double kStep = 0.005;
    const double coarse = difference(stage, parameter, value, kStep);
    return (4.0 * difference(stage, parameter, value, kStep / 2.0) - coarse) / 3.0;
  }
  const std::vector<Stage>& stages() const { return cut_.trunk; }

 private:
  double difference(std::size_t stage, std::size_t parameter, std::size_t value, double step) {
    std::vector<ShardState> moved = start_;
    float& x = moved[stage].parameters[parameter].value.data()[value];
    const float at = x;
    x = at + static_cast<float>(step);
    trunk_.load(moved);
    const double above = loss();
    x = at - static_cast<float>(step);
    trunk_.load(moved);
    const double below = loss();
    return (above - below) / (2.0 * step);
  }

  Cut cut_;
  std::unique_ptr<Device> device_;
  Images images_;
  PlainTrunk trunk_;
  std::vector<Tensor> slopes_;  ///< gradient of the loss by each output
  std::vector<ShardState> start_;
};

/// The stages of a net with what they read.
std::string reads_in(const Net& net) {
  std::string text;
  const std::vector<Stage> stages = cut(net).trunk;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    text += stages[s].name + ":";
    for (const Sources& read : reads_of(stages, s)) {
      text += " (";
      for (const Source& source : read) {
        text += fmt::format(" {}[{}+{}]",
                            source.stage >= 0                 ? stages[source.stage].name
                            : source.stage == Source::kImages ? "images"
                                                              : "zeros",
                            source.channels.first, source.channels.count);
      }
      text += " )";
    }
    text += "\n";
  }
  return text;
}

TEST(Graphs, AreCutIntoStagesThatReadOneAnother) {
  EXPECT_EQ(reads_in(graph()),
            "stem: ( images[0+2] )\n"
            "stem_norm: ( stem[0+6] )\n"
            "a1: ( stem_norm[0+6] )\n"
            "a2: ( a1[0+6] ) ( stem_norm[0+6] )\n"
            "b1: ( a2[0+6] )\n"
            "b_half: ( a2[0+6] )\n"
            "b_sum: ( zeros[0+1] b_half[0+6] zeros[0+3] ) ( b1[0+10] )\n"
            "c1: ( b_sum[0+10] )\n"
            "c2: ( b_sum[0+10] )\n"
            "c3: ( c2[0+7] ) ( c1[0+7] ) ( c2[0+7] )\n"
            "side_pool: ( c3[0+7] )\n"
            "d1: ( c3[0+7] )\n"
            "d2: ( c3[0+7] )\n"
            "d3: ( c3[0+7] )\n"
            "e1: ( d1[0+3] d2[0+5] d3[0+7] )\n"
            "e2: ( d1[0+3] d2[0+5] d3[0+7] )\n"
            "e_drop: ( e2[0+15] e1[0+6] e1[0+6] )\n");
}

/// A gate belongs to the stage whose maps it multiplies only where nothing else reads these and the gate is there
/// before.
TEST(Graphs, WithGatesAreCutIntoStagesThatReadOneAnother) {
  EXPECT_EQ(reads_in(gates()),
            "stem: ( images[0+2] )\n"
            "mixed: ( stem[0+6] )\n"
            "r1: ( mixed[2+4] )\n"
            "r_mean: ( r1[0+4] )\n"
            "r_down: ( r_mean[0+4] )\n"
            "r_up: ( r_down[0+3] )\n"
            "r_gated: ( r1[0+4] ) ( r_up[0+4] )\n"
            "r2: ( r_gated[0+4] )\n"
            "mixed_again: ( mixed[0+2] r2[0+4] )\n"
            "p_mean: ( mixed_again[0+6] )\n"
            "p_gate: ( p_mean[0+6] )\n"
            "p1: ( mixed_again[0+6] )\n"
            "p2: ( mixed_again[0+6] ) ( p1[0+5] ) ( p_gate[0+5] )\n"
            "squares: ( p2[0+5] ) ( p2[0+5] ) ( p2[0+5] )\n"
            "front: ( squares[0+3] )\n"
            "back: ( squares[3+2] p2[0+5] ) ( front[0+4] )\n");
  const std::vector<Stage> stages = cut(gates()).trunk;
  EXPECT_EQ(std::get<Multiply>(stages[6].after.at(0)), (Multiply{{{5, {0, 4}}}, true}));
  EXPECT_EQ(std::get<Multiply>(stages[12].after.at(1)), (Multiply{{{11, {0, 5}}}, false}));
  EXPECT_EQ(std::get<Multiply>(stages[12].after.at(2)), (Multiply{{{10, {0, 5}}}, true}));
  EXPECT_EQ(stages[1].shuffle, 3);
}

/// A norm, its factors, and the two halves of a PReLU are stages.
TEST(Graphs, WithNormsAreCutIntoStagesThatReadOneAnother) {
  EXPECT_EQ(reads_in(norms()),
            "stem: ( images[0+2] )\n"
            "stem_norm: ( stem[0+6] )\n"
            "stem_norm: ( stem_norm[0+6] )\n"
            "a1: ( stem_norm[0+6] )\n"
            "a1_norm: ( a1[0+6] )\n"
            "a1_norm: ( a1_norm[0+6] )\n"
            "a1_act: ( a1_norm[0+6] )\n"
            "a1_act: ( a1_norm[0+6] )\n"
            "a1_act: ( a1_act[0+6] ) ( a1_act[0+6] ) ( stem_norm[0+6] )\n"
            "b1: ( a1_act[0+6] )\n"
            "b_norm: ( b1[0+6] )\n"
            "b_norm: ( b_norm[0+6] )\n"
            "b2: ( b_norm[0+6] )\n"
            "b3: ( b2[0+9] ) ( a1_act[0+6] )\n"
            "c1: ( b3[0+6] )\n"
            "c_norm: ( c1[0+5] )\n"
            "up: ( c_norm[0+5] )\n"
            "smooth: ( b3[0+6] )\n"
            "both_act: ( up[0+5] smooth[0+6] )\n"
            "both_act: ( up[0+5] smooth[0+6] )\n"
            "both_act: ( both_act[0+11] ) ( both_act[0+11] )\n"
            "e: ( both_act[0+11] )\n"
            "e_norm: ( e[0+4] )\n");
  const Cut parts = cut(norms());
  EXPECT_EQ(parts.trunk[1].group_norm, (GroupNorm{.groups = 3}));
  EXPECT_EQ(parts.trunk[4].group_norm.groups, 6);
  EXPECT_TRUE(parts.trunk[10].group_norm.by_position);
  EXPECT_EQ(parts.trunk[17].resizing, resizing_of(Upsampling{2, 2, true}, 4, 4));
  EXPECT_TRUE(parts.has_list(2) && parts.has_list(8) && parts.has_list(20));
  EXPECT_FALSE(parts.has_list(0) || parts.has_list(1) || parts.has_list(3) || parts.has_list(21));
  EXPECT_EQ(parameters_of(parts.trunk[8], 6).at(0).name, "a1_act.weight");
  EXPECT_EQ(initial_trunk(parts, 1)[2].weights().at(3, 0), 1.0F);
}

TEST(Graphs, HaveAHeadOnEachOutput) {
  const Cut parts = cut(graph());
  ASSERT_EQ(parts.heads.size(), 2U);
  EXPECT_EQ(outputs_of(parts.trunk), (std::vector<int>{10, 16}));
  EXPECT_EQ(parts.heads[0].maps, (FeatureShape{7, 2, 1}));
  EXPECT_EQ(parts.heads[0].layers.back().name, "side_loss");
  EXPECT_EQ(parts.heads[1].layers.back().name, "loss");
  // The order of the layers in the file does not matter.
  std::string text = kGraphNet;
  const std::size_t from = text.find("  - {name: side_pool");
  const std::size_t to = text.find("  # Branches side");
  const std::string side = text.substr(from, to - from);
  text.erase(from, to - from);
  text.insert(text.find("  - {name: loss"), side);
  text.replace(text.find("{name: loss, type"), 17, "{name: loss, from: out, type");
  const Cut moved = cut(parse_net(text, "graph.yaml"));
  EXPECT_EQ(moved.heads[1].layers.back().name, "loss");
  EXPECT_EQ(outputs_of(moved.trunk).back(), static_cast<int>(moved.trunk.size()) - 1);
}

class GraphGradients : public testing::TestWithParam<const char*> {};

TEST_P(GraphGradients, AreThoseOfCentralDifferences) {
  GraphOn trunk("reference64", parse_net(GetParam(), "net.yaml"));
  const std::vector<ShardState> gradients = trunk.gradients();
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const std::vector<ParameterSpec> specs = parameters_of(trunk.stages()[s], trunk.stages()[s].conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (!specs[p].trained) continue;
      const Tensor& gradient = gradients[s].parameters[p].value;
      for (std::size_t i = 0; i < gradient.size(); i += 1 + gradient.size() / 5) {
        const double expected = trunk.difference(s, p, i);
        EXPECT_NEAR(gradient.data()[i], expected, 2e-3 * (1.0 + std::abs(expected))) << specs[p].name << " " << i;
      }
    }
  }
}

TEST_P(GraphGradients, AgreeOnAllDevices) {
  const Net net = parse_net(GetParam(), "net.yaml");
  GraphOn reference("reference64", net);
  const Tensor maps = reference.maps();
  const std::vector<ShardState> gradients = reference.gradients();
  for (const DeviceRow& row : list_devices()) {
    if (!row.unusable.empty() || row.name.starts_with("reference")) continue;
    SCOPED_TRACE(row.name);
    GraphOn other(row.name, net);
    const Tensor got = other.maps();
    for (std::size_t i = 0; i < maps.size(); ++i) ASSERT_NEAR(got.data()[i], maps.data()[i], 2e-5) << i;
    const std::vector<ShardState> theirs = other.gradients();
    for (std::size_t s = 0; s < gradients.size(); ++s) {
      for (std::size_t p = 0; p < gradients[s].parameters.size(); ++p) {
        const Tensor& a = gradients[s].parameters[p].value;
        const Tensor& b = theirs[s].parameters[p].value;
        for (std::size_t i = 0; i < a.size(); ++i) {
          ASSERT_NEAR(b.data()[i], a.data()[i], 2e-4) << other.stages()[s].name << ", parameter " << p << ", " << i;
        }
      }
    }
  }
}

std::string name_of_graph(const testing::TestParamInfo<const char*>& info) {
  constexpr std::array kNames{"Graph", "Gates", "Norms", "Sizes"};
  return kNames.at(info.index);
}

INSTANTIATE_TEST_SUITE_P(Nets, GraphGradients, testing::Values(kGraphNet, kGatesNet, kNormsNet, kSizesNet),
                         name_of_graph);

class ShippedNets : public testing::TestWithParam<Shipped> {};

TEST_P(ShippedNets, ComputeTheSameOnReferenceAndProcessor) {
  const Net net = GetParam().read();
  GraphOn reference("reference64", net, GetParam().batch);
  GraphOn processor("cpu", net, GetParam().batch);
  EXPECT_LT(distance(processor.maps(), reference.maps()), 1e-4);
  const std::vector<ShardState> expected = reference.gradients();
  const std::vector<ShardState> got = processor.gradients();
  for (std::size_t s = 0; s < expected.size(); ++s) {
    const std::vector<ParameterSpec> specs = parameters_of(reference.stages()[s], reference.stages()[s].conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      // Where values are nearly equal, rounding decides the slope of a ReLU and the maximum of a window.
      EXPECT_LT(distance(got[s].parameters[p].value, expected[s].parameters[p].value), 0.05) << specs[p].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, ShippedNets, kShippedNets, test_name);

}  // namespace
}  // namespace convoy
