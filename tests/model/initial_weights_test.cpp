// Tests the deviations of initial weights.

#include <gtest/gtest.h>

#include <algorithm>

#include "model/heads.hpp"

namespace convoy {
namespace {

TEST(InitialWeights, AreHeScaledAndIndependentOfOrder) {
  Cut cut{.trunk = {},
          .heads = {{.maps = {8, 1, 1},
                     .layers = {{.name = "layer1", .spec = Dense{400}},
                                {.name = "layer2", .spec = Activation::relu},
                                {.name = "layer3", .spec = Dense{3}},
                                {.name = "layer4", .spec = SoftmaxCrossEntropy{}}}}}};
  cut.trunk = {{.name = "conv1",
                .channels = 30,
                .height = 8,
                .width = 8,
                .conv = {.filters = 40, .kernel_h = 3, .kernel_w = 3},
                .after = {Activation::relu}}};
  const auto spread = [](std::span<const float> values) {
    double sum = 0.0;
    for (const float value : values) sum += static_cast<double>(value) * value;
    return sum / static_cast<double>(values.size());
  };
  const std::vector<ShardState> states = initial_trunk(cut, 5);
  EXPECT_NEAR(spread(states[0].weights().span()), 2.0 / 270.0, 0.1 * 2.0 / 270.0);
  std::vector<DenseState<float>> head = initial_heads(cut, 5);
  EXPECT_NEAR(spread(head[0].weights.value.span()), 2.0 / 8.0, 0.1 * 2.0 / 8.0);
  EXPECT_NEAR(spread(head[1].weights.value.span()), 1.0 / 400.0, 0.15 * 1.0 / 400.0);
  EXPECT_NE(states[0].weights().data()[0], head[0].weights.value.data()[0]);
  const std::vector<ShardState> again = initial_trunk(cut, 5);
  EXPECT_TRUE(
      std::equal(states[0].weights().span().begin(), states[0].weights().span().end(), again[0].weights().data()));
  EXPECT_NE(initial_trunk(cut, 6)[0].weights().data()[0], states[0].weights().data()[0]);
  // A GELU halves the variance more or less; a SELU keeps it.
  cut.trunk[0].after = {Activation{Activation::Kind::gelu}};
  EXPECT_NEAR(spread(initial_trunk(cut, 5)[0].weights().span()), 2.0 / 270.0, 0.1 * 2.0 / 270.0);
  cut.trunk[0].after = {Activation{Activation::Kind::selu}};
  EXPECT_NEAR(spread(initial_trunk(cut, 5)[0].weights().span()), 1.0 / 270.0, 0.1 * 1.0 / 270.0);
  // Of maps whose elements are spread, a filter reads fewer that are not 0.
  Cut transposed = cut;
  transposed.trunk.insert(transposed.trunk.begin(),
                          stage_without_weights("spread", StageKind::resize, cut.trunk[0].channels, 1, 1));
  transposed.trunk[0].resizing = {Resizing::Mode::spread, {1, 2.0, 0.0}, {1, 3.0, 0.0}};
  EXPECT_NEAR(spread(initial_trunk(transposed, 5)[1].weights().span()), 6.0 / 270.0, 0.1 * 6.0 / 270.0);
  // The layer's `init` decides.
  cut.inits = {{Initialisation::Kind::xavier}};
  EXPECT_NEAR(spread(initial_trunk(cut, 5)[0].weights().span()), 2.0 / 630.0, 0.1 * 2.0 / 630.0);
  cut.heads[0].layers[0].init = {Initialisation::Kind::constant, 0.5};
  cut.heads[0].layers[2].init = {Initialisation::Kind::he};
  head = initial_heads(cut, 5);
  EXPECT_EQ(head[0].weights.value.data()[7], 0.5F);
  EXPECT_NEAR(spread(head[1].weights.value.span()), 2.0 / 400.0, 0.15 * 2.0 / 400.0);
}

}  // namespace
}  // namespace convoy
