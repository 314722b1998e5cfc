// Small nets, images and machines in one process, for tests of learners that are made of replicas.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "tests/support/states.hpp"
#include "train/local_trunk.hpp"
#include "train/train.hpp"

namespace convoy {

inline constexpr int kBatch = 4;  ///< images of a replica's batch
inline constexpr int kReplicas = 4;
inline constexpr int kSteps = 10;
inline constexpr int kClasses = 4;
inline constexpr std::uint64_t kSeed = 11;

struct NetCase {
  std::string name;
  TrainingOptions training;
  bool batch_norm = false;
  bool dropout = false;
};

inline void PrintTo(const NetCase& c, std::ostream* out) { *out << c.name; }

/// A net of two stages, of which the second has a parameter of each kind, and a head of two dense layers.
inline Cut net_of(const NetCase& c) {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 2,
                .height = 9,
                .width = 7,
                .conv = {.filters = 5, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {Activation::tanh, Pooling{.kind = PoolKind::average}}},
               {.name = "conv2",
                .channels = 5,
                .height = 4,
                .width = 3,
                .conv = {.filters = 6, .kernel_h = 3, .kernel_w = 2, .pad = {1, 0, 1, 1}},
                .after = {}}};
  if (c.batch_norm) cut.trunk[1].after.emplace_back(BatchNorm{.name = "norm2"});
  cut.trunk[1].after.emplace_back(Activation::tanh);
  if (c.dropout) cut.trunk[1].after.emplace_back(Dropout{0.25F, 0});
  const FeatureShape maps{6, 4, 3};
  cut.heads = {{.maps = maps,
                .layers = {{.name = "dense1", .spec = Dense{8}},
                           {.name = "tanh1", .spec = Activation::tanh},
                           {.name = "dense2", .spec = Dense{kClasses}},
                           {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  cut.moments = moments_of(c.training.optimizer);
  for (Stage& stage : cut.trunk) stage.moments = cut.moments;
  return cut;
}

/// The images and labels of a step.
struct LabelledImages {
  Images images;
  std::vector<int> labels;
};

inline LabelledImages images_of(const Cut& cut, int step, int count) {
  const auto stream = static_cast<std::uint64_t>(step);
  LabelledImages made{noise_images(input_shape(cut.trunk[0], count), kSeed, 100 + stream), {}};
  Random random(kSeed, 200 + stream);
  for (int i = 0; i < count; ++i) made.labels.push_back(static_cast<int>(random.below(kClasses)));
  return made;
}

inline TrainingState initial(const Cut& cut) {
  return {std::make_shared<const ModelState>(ModelState{initial_trunk(cut, kSeed), initial_heads(cut, kSeed)})};
}

/// Trains steps first + 1 to last, and returns the sum of the losses.
inline double train_some(Learner& learner, const NetCase& c, const Cut& cut, int count, int first = 0,
                         int last = kSteps) {
  double loss = 0.0;
  for (int step = first; step < last; ++step) {
    const LabelledImages at = images_of(cut, step, count);
    const Pass pass{.training = true,
                    .seed = static_cast<std::uint64_t>(step) + 7,
                    .squares = c.training.clip > 0.0,
                    .step = step + 1};
    loss += train_step(
                learner, at.images, at.labels, pass,
                [&](double norm) { return update_step(c.training, c.training.learning_rate, step + 1, norm); },
                [&](const BatchLoss&) { return Progress{.batch = step + 1}; })
                .sum;
  }
  return loss;
}

inline const NetCase kDiverging{"Sgd", {.learning_rate = 3e38, .momentum = 0.9, .weight_decay = 1.0}};

/// Expects that two replicas with the net kDiverging name a stage that has broken within three steps.
inline void expect_diverges(Learner& learner, const Cut& cut) {
  EXPECT_FALSE(learner.broken());
  train_some(learner, kDiverging, cut, 2 * kBatch, 0, 3);
  const std::optional<Broken> broken = learner.broken();
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->layer.substr(0, 4), "conv");
  EXPECT_LE(broken->step, 3);
}

/// One machine.
struct OneMachine {
  OneMachine(const Cut& cut, int batch)
      : trunk(cut.trunk, input_shape(cut.trunk[0], batch), *device), learner(trunk, cut, batch, 1) {
    learner.load(initial(cut));
  }
  std::unique_ptr<Device> device = make_device("eigen", {.threads = 1});
  LocalTrunk trunk;
  NetLearner learner;
};

inline void expect_equal(const ModelState& a, const ModelState& b) {
  ASSERT_EQ(a.trunk.size(), b.trunk.size());
  for (std::size_t s = 0; s < a.trunk.size(); ++s) EXPECT_TRUE(same_bits(a.trunk[s], b.trunk[s])) << "stage " << s;
  ASSERT_EQ(a.head.size(), b.head.size());
  for (std::size_t d = 0; d < a.head.size(); ++d) {
    const ShardState x{{a.head[d].weights, a.head[d].bias}};
    const ShardState y{{b.head[d].weights, b.head[d].bias}};
    EXPECT_TRUE(same_bits(x, y)) << a.head[d].name;
  }
}

inline const std::vector<NetCase> kPlainNets{
    {"Sgd", {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.001}},
    {"NesterovClipped", {.optimizer = Optimizer::nesterov, .learning_rate = 0.05, .momentum = 0.9, .clip = 0.01}},
    {"Adam", {.optimizer = Optimizer::adam, .learning_rate = 0.001, .momentum = 0.9}}};

inline std::string name_of(const testing::TestParamInfo<NetCase>& info) { return info.param.name; }

}  // namespace convoy
