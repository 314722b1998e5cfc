// Tests that a model keeps all its values in the form of a net whose first dense layer is cut along its inputs.

#include "model/sliced_model.hpp"

#include <gtest/gtest.h>

#include "tests/model/small_model.hpp"

namespace convoy {
namespace {

Cut net_with_moments(int moments, float rate = 1.0F) {
  Cut cut = small_net(5);
  cut.moments = moments;
  cut.trunk[0].moments = moments;
  cut.heads[0].layers[0].rate = rate;
  cut.heads[0].layers.insert(cut.heads[0].layers.begin() + 1, {.name = "dense2", .spec = Dense{3}});
  return cut;
}

TEST(SlicedModel, HasTheColumnsOfItsChannels) {
  const Cut whole = net_with_moments(1);
  const DenseSlices slices = slice_dense(whole, 2).value();
  const ModelState model = drawn(whole, 3);
  const ModelState made = sliced(model, slices);
  ASSERT_EQ(made.trunk.size(), 4U);
  ASSERT_EQ(made.head.size(), 1U);
  EXPECT_EQ(made.head[0].name, "dense2");
  EXPECT_EQ(made.trunk[1].weights().shape(), (Shape{4, 2, 2, 2}));
  EXPECT_EQ(made.trunk[2].weights().shape(), (Shape{4, 3, 2, 2}));
  EXPECT_TRUE(made.trunk[3].parameters.empty());
  const auto value = [](const Tensor& of, int unit, int input) {
    return of.data()[static_cast<std::size_t>(unit) * of.shape().sample_size() + static_cast<std::size_t>(input)];
  };
  const Parameter& dense = model.head[0].weights;
  for (int unit = 0; unit < 4; ++unit) {
    EXPECT_EQ(value(made.trunk[1].weights(), unit, 7), value(dense.value, unit, 7));
    EXPECT_EQ(value(made.trunk[2].weights(), unit, 0), value(dense.value, unit, 8));
    EXPECT_EQ(value(made.trunk[2].parameters[0].moments[0], unit, 11), value(dense.moments[0], unit, 19));
  }
  EXPECT_EQ(made.trunk[1].parameters.size(), 2U) << "the first slice has the biases";
  EXPECT_EQ(made.trunk[2].parameters.size(), 1U);
}

TEST(SlicedModel, IsJoinedToTheBit) {
  for (const int moments : {0, 1, 2}) {
    for (const float rate : {1.0F, 0.0F}) {
      const Cut whole = net_with_moments(moments, rate);
      const ModelState model = drawn(whole, 5);
      for (const int count : {2, 3, 5}) {
        const DenseSlices slices = slice_dense(whole, count).value();
        const ModelState made = sliced(model, slices);
        for (std::size_t s = 0; s < made.trunk.size(); ++s) {
          const Stage& stage = slices.cut.trunk[s];
          const ShardState expected = zero_state(stage, stage.conv.filters);
          ASSERT_EQ(made.trunk[s].parameters.size(), expected.parameters.size()) << stage.name;
          for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
            EXPECT_EQ(made.trunk[s].parameters[p].value.shape(), expected.parameters[p].value.shape());
            EXPECT_EQ(made.trunk[s].parameters[p].moments.size(), expected.parameters[p].moments.size());
          }
        }
        const ModelState back = joined(made, slices);
        EXPECT_EQ(all_values(back), all_values(model));
        ASSERT_EQ(back.head.size(), model.head.size());
        for (std::size_t d = 0; d < model.head.size(); ++d) {
          EXPECT_EQ(back.head[d].name, model.head[d].name);
          EXPECT_EQ(back.head[d].weights.value.shape(), model.head[d].weights.value.shape());
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy
