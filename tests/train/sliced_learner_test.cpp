// A net whose first dense layer is cut along its inputs, against the same net with the layer in its head.

#include "train/sliced_learner.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/replica_nets.hpp"

namespace convoy {
namespace {

/// One machine that computes the slices as stages.
struct SlicedMachine {
  SlicedMachine(const Cut& whole, int count)
      : slices(slice_dense(whole, count).value()),
        trunk(slices.cut.trunk, input_shape(whole.trunk[0], kBatch), *device),
        learner(std::make_unique<NetLearner>(trunk, slices.cut, kBatch, 1), slices) {
    learner.load(initial(whole));
  }
  DenseSlices slices;
  std::unique_ptr<Device> device = make_device("eigen", {.threads = 1});
  LocalTrunk trunk;
  SlicedLearner learner;
};

class SlicedNets : public testing::TestWithParam<NetCase> {};

/// Sums of the same products in another order.
TEST_P(SlicedNets, TrainAsWholeNetsDo) {
  const NetCase& c = GetParam();
  for (const float rate : {1.0F, 0.25F, 0.0F}) {
    Cut cut = net_of(c);
    cut.heads[0].layers[0].rate = rate;
    const double tolerance = 64.0 * kSteps * std::sqrt(9.0 * 7.0 * 2.0 * kBatch) * 0x1.0p-24;
    OneMachine whole(cut, kBatch);
    const double loss = train_some(whole.learner, c, cut, kBatch);
    const auto expected = whole.learner.state();
    for (const int count : {2, 3, 6}) {
      SlicedMachine sliced(cut, count);
      EXPECT_NEAR(train_some(sliced.learner, c, cut, kBatch), loss, tolerance * kSteps * kBatch);
      const auto got = sliced.learner.state();
      ASSERT_EQ(got->trunk.size(), expected->trunk.size());
      for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(got->trunk[s], expected->trunk[s], tolerance);
      ASSERT_EQ(got->head.size(), expected->head.size());
      for (std::size_t d = 0; d < got->head.size(); ++d) {
        EXPECT_EQ(got->head[d].name, expected->head[d].name);
        expect_near(ShardState{{got->head[d].weights, got->head[d].bias}},
                    ShardState{{expected->head[d].weights, expected->head[d].bias}}, tolerance);
      }
      const LabelledImages at = images_of(cut, 77, kBatch);
      const Tensor& ours = sliced.learner.outputs(at.images);
      const Tensor& theirs = whole.learner.outputs(at.images);
      for (std::size_t i = 0; i < theirs.size(); ++i) EXPECT_NEAR(ours.data()[i], theirs.data()[i], tolerance);
    }
  }
}

TEST_P(SlicedNets, GoOnFromTheirStateToTheBit) {
  const NetCase& c = GetParam();
  const Cut cut = net_of(c);
  SlicedMachine straight(cut, 3);
  train_some(straight.learner, c, cut, kBatch);
  SlicedMachine before(cut, 3);
  train_some(before.learner, c, cut, kBatch, 0, 4);
  SlicedMachine after(cut, 3);
  after.learner.load({before.learner.state()});
  train_some(after.learner, c, cut, kBatch, 4, kSteps);
  expect_equal(*after.learner.state(), *straight.learner.state());
}

INSTANTIATE_TEST_SUITE_P(Nets, SlicedNets, testing::ValuesIn(kPlainNets), name_of);

TEST(SlicedNetsThatDiverge, NameTheDenseLayer) {
  Cut cut = net_of(kDiverging);
  for (Stage& stage : cut.trunk) stage.conv.rate = 0.0F;
  SlicedMachine sliced(cut, 3);
  EXPECT_FALSE(sliced.learner.broken());
  train_some(sliced.learner, kDiverging, cut, kBatch, 0, 3);
  const std::optional<Broken> broken = sliced.learner.broken();
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->layer, "dense1");
}

}  // namespace
}  // namespace convoy
