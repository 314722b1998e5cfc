// Dense layers that a device computes, beside the same layers on the host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/device_dense.hpp"
#include "tests/train/replica_nets.hpp"
#include "tests/train/traced_device.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kHeadBatch = 8;

struct HeadsCase {
  std::string name;
  UpdateStep step;
  int part = kHeadBatch;  ///< samples that pass at once
  bool clipped = false;
  std::vector<float> rates{1, 1, 1};  ///< of the main head's dense layers
  bool trains_trunk = true;
  int counted = kHeadBatch;
};

void PrintTo(const HeadsCase& c, std::ostream* out) { *out << c.name; }

/// A trunk with two outputs, a side head as GoogLeNet has, and a main head with all kinds of layers.
Cut two_heads(const HeadsCase& c) {
  Cut cut;
  cut.trunk = {{.name = "conv1", .channels = 1, .height = 3, .width = 2, .conv = {.filters = 2}, .after = {}},
               {.name = "conv2",
                .channels = 2,
                .height = 3,
                .width = 2,
                .conv = {.filters = 3},
                .after = {},
                .from = {{.stage = 0, .channels = {0, 2}}}},
               {.name = "conv3",
                .channels = 2,
                .height = 3,
                .width = 2,
                .conv = {.filters = 4},
                .after = {},
                .from = {{.stage = 0, .channels = {0, 2}}}}};
  for (Stage& stage : cut.trunk) stage.conv.rate = c.trains_trunk ? 1.0F : 0.0F;
  cut.heads = {{.maps = {3, 3, 2},
                .layers = {{.name = "side", .spec = Dense{4}},
                           {.name = "side_loss", .spec = SoftmaxCrossEntropy{.weight = 0.3F}}}},
               {.maps = {4, 3, 2},
                .layers = {{.name = "dense1", .spec = Dense{9}, .rate = c.rates[0]},
                           {.name = "tanh1", .spec = Activation::tanh},
                           {.name = "drop1", .spec = Dropout{0.25F, 3}},
                           {.name = "dense2", .spec = Dense{7}, .rate = c.rates[1]},
                           {.name = "sigmoid2", .spec = Activation::sigmoid},
                           {.name = "dense3", .spec = Dense{4}, .rate = c.rates[2]},
                           {.name = "loss",
                            .spec = SoftmaxCrossEntropy{.label_smoothing = 0.1F, .class_weights = {1, 2, 0.5, 1}}}}}};
  cut.moments = moments_of(c.step.optimizer);
  return cut;
}

ShardState as_state(const DenseState<float>& dense) { return {{dense.weights, dense.bias}}; }

void expect_near(const std::vector<DenseState<float>>& got, const std::vector<DenseState<float>>& expected, double by) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, expected[i].name);
    SCOPED_TRACE(got[i].name);
    convoy::expect_near(as_state(got[i]), as_state(expected[i]), by);
  }
}

/// Heads with maps, which train on the same values wherever they are.
class Trained {
 public:
  Trained(const HeadsCase& c, const HeadPlace& place)
      : case_(c), cut_(two_heads(c)), heads_(cut_, kHeadBatch, place), random_(3, 1) {
    heads_.load(initial_heads(cut_, 5));
    for (const CutHead& head : cut_.heads) {
      maps_.emplace_back(Shape{kHeadBatch, head.maps.channels, head.maps.height, head.maps.width});
    }
    for (int n = 0; n < kHeadBatch; ++n) labels_.push_back(static_cast<int>(random_.below(4)));
  }

  Heads& heads() { return heads_; }
  const Cut& cut() const { return cut_; }
  void take_parts_of(int samples) { case_.part = samples; }

  BatchLoss step(const std::vector<SampleRange>& parts) {
    for (Tensor& maps : maps_) {
      for (float& value : maps.span()) value = random_.uniform(-1.0F, 1.0F);
    }
    const Pass pass{.training = true, .seed = ++seed_, .squares = case_.clipped};
    BatchLoss sum;
    for (const SampleRange part : parts) {
      heads_.forward(outputs(), pass, part);
      const BatchLoss loss = heads_.loss(labels_, case_.counted, part);
      sum.sum += loss.sum;
      sum.correct += loss.correct;
      slopes.clear();
      for (const Tensor* slope : heads_.backward(part)) slopes.push_back(*slope);
    }
    heads_.backward_weights();
    UpdateStep update = case_.step;
    if (case_.clipped) {
      squares = heads_.gradient_squares();
      update.gradient_scale = static_cast<float>(0.01 / std::sqrt(squares));
    }
    if (update.optimizer == Optimizer::adam) {
      update.correction1 = static_cast<float>(1.0 - std::pow(update.momentum, seed_));
      update.correction2 = static_cast<float>(1.0 - std::pow(update.beta2, seed_));
    }
    heads_.update(update);
    return sum;
  }
  BatchLoss step() {
    std::vector<SampleRange> parts;
    for (int first = 0; first < kHeadBatch; first += case_.part) parts.push_back({first, case_.part});
    return step(parts);
  }
  Tensor test() {
    heads_.forward(outputs(), {});
    return heads_.outputs();
  }

  std::vector<Tensor> slopes;
  double squares = 0.0;

 private:
  std::vector<const Tensor*> outputs() const {
    std::vector<const Tensor*> all;
    for (const Tensor& maps : maps_) all.push_back(&maps);
    return all;
  }

  HeadsCase case_;
  Cut cut_;
  Heads heads_;
  Random random_;
  std::vector<Tensor> maps_;
  std::vector<int> labels_;
  std::uint64_t seed_ = 0;
};

void expect_near(const Tensor& got, const Tensor& expected, double by) {
  ASSERT_EQ(got.shape(), expected.shape());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got.data()[i], expected.data()[i], by) << i;
}

class DeviceHeads : public testing::TestWithParam<HeadsCase> {};

TEST_P(DeviceHeads, TrainAndTestLikeThoseOfTheHost) {
  constexpr double kNear = 2e-5;
  for (const DeviceRow& row : list_devices()) {
    if (!row.unusable.empty() || row.name.starts_with("clblast")) continue;
    SCOPED_TRACE(row.name);
    const auto device = make_device(row.name, {.threads = 1});
    std::vector<std::string> told;
    Trained host(GetParam(), 1);
    Trained there(GetParam(), {1, {}, device.get(), [&](const std::string& text) { told.push_back(text); }});
    for (int step = 0; step < 6; ++step) {
      const BatchLoss expected = host.step();
      const BatchLoss loss = there.step();
      EXPECT_NEAR(loss.sum, expected.sum, kNear * std::abs(expected.sum));
      EXPECT_EQ(loss.correct, expected.correct);
      for (std::size_t i = 0; i < host.slopes.size(); ++i) expect_near(there.slopes[i], host.slopes[i], kNear);
      EXPECT_NEAR(there.squares, host.squares, 1e-4 * host.squares);
      if (step % 2 == 0) expect_near(there.heads().gradients(), host.heads().gradients(), kNear);
      if (step == 3) expect_near(there.heads().states(), host.heads().states(), kNear);
      if (step == 4) expect_near(there.test(), host.test(), kNear);
    }
    expect_near(there.heads().states(), host.heads().states(), kNear);
    expect_near(there.test(), host.test(), kNear);
    EXPECT_EQ(there.heads().broken(), "");
    EXPECT_THAT(told, IsEmpty()) << "the device computed all dense layers";
  }
}

const UpdateStep kMomentum{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F};

std::vector<HeadsCase> heads_cases() {
  UpdateStep nesterov = kMomentum;
  nesterov.optimizer = Optimizer::nesterov;
  const UpdateStep adam{.optimizer = Optimizer::adam, .learning_rate = 0.01F, .momentum = 0.9F, .weight_decay = 0.01F};
  return {{.name = "Momentum", .step = kMomentum},
          {.name = "MomentumInParts", .step = kMomentum, .part = 2},
          {.name = "NesterovClipped", .step = nesterov, .clipped = true},
          {.name = "Adam", .step = adam},
          {.name = "AdamInParts", .step = adam, .part = 4, .counted = 5},
          {.name = "Frozen", .step = kMomentum, .rates = {1, 0, 1}},
          {.name = "FrozenBeginning", .step = kMomentum, .clipped = true, .rates = {0, 1, 0.5}, .trains_trunk = false},
          {.name = "Rates", .step = kMomentum, .rates = {0.25, 1, 2}},
          {.name = "LastSamplesDoNotCount", .step = kMomentum, .trains_trunk = false, .counted = 3}};
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceHeads, testing::ValuesIn(heads_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(DeviceHeadsValues, StayOnTheDeviceUntilSomebodyAsks) {
  TracedDevice device;
  Traced& traced = device.traced;
  Trained there({.name = "", .step = kMomentum}, {1, {}, &device});
  for (int i = 0; i < 3; ++i) there.step();
  there.test();
  constexpr int kLayers = 4;
  EXPECT_EQ(traced.compiled, kLayers);
  EXPECT_EQ(traced.written, kLayers) << "the initial weights";
  EXPECT_EQ(traced.read, 0);
  EXPECT_EQ(traced.gradients, 0);
  const auto states = there.heads().states();
  there.heads().states();
  EXPECT_EQ(traced.read, kLayers);
  there.heads().gradients();
  there.heads().gradient_squares();
  EXPECT_EQ(traced.gradients, kLayers);
  there.step();
  EXPECT_EQ(traced.written, kLayers) << "reading leaves the device's values";
  there.heads().load(states);
  EXPECT_EQ(traced.read, kLayers) << "nobody needs values that others replace";
  there.step();
  EXPECT_EQ(traced.written, 2 * kLayers);
  EXPECT_EQ(traced.compiled, kLayers);
}

TEST(DeviceHeadsValues, GoOnFromALoadedState) {
  TracedDevice device;
  const HeadsCase adam{.name = "", .step = {.optimizer = Optimizer::adam, .learning_rate = 0.01F, .momentum = 0.9F}};
  Trained whole(adam, {1, {}, &device});
  Trained first(adam, {1, {}, &device});
  for (int i = 0; i < 4; ++i) whole.step();
  for (int i = 0; i < 2; ++i) first.step();
  const auto states = first.heads().states();
  for (int i = 0; i < 2; ++i) first.step();  // lost, as where the machine fails
  Trained rest(adam, {1, {}, &device});
  for (int i = 0; i < 2; ++i) rest.step();  // draws the same maps
  rest.heads().load(states);
  for (int i = 0; i < 2; ++i) rest.step();
  expect_near(rest.heads().states(), whole.heads().states(), 0.0);
}

/// Heads that only test may be given moments, which they do not keep, or weights alone.
TEST(DeviceHeadsValues, TakeStatesWithOtherMoments) {
  const HeadsCase c{.name = "", .step = kMomentum};
  TracedDevice device;
  Trained host(c, 1);
  host.step();
  const std::vector<DenseState<float>> trained = host.heads().states();
  std::vector<DenseState<float>> weights = trained;
  for (DenseState<float>& each : weights) each.weights.moments = each.bias.moments = {};
  const std::vector<Tensor> maps{Tensor({kHeadBatch, 3, 3, 2}, 0.5F), Tensor({kHeadBatch, 4, 3, 2}, 0.5F)};
  host.heads().forward({&maps[0], &maps[1]}, {});
  Heads bare(without_moments(two_heads(c)), kHeadBatch, {1, {}, &device});
  Heads full(two_heads(c), kHeadBatch, {1, {}, &device});
  bare.load(trained);
  full.load(weights);
  for (Heads* heads : {&bare, &full}) {
    heads->forward({&maps[0], &maps[1]}, {});
    expect_near(heads->outputs(), host.heads().outputs(), 1e-6);
  }
}

/// The plan of a cluster, and with it the parts of a batch, changes where slaves come and go.
TEST(DeviceHeadsParts, MayChangeBetweenBatches) {
  TracedDevice device;
  std::vector<std::string> told;
  const HeadsCase c{.name = "", .step = kMomentum};
  Trained host(c, 1);
  Trained there(c, {1, {}, &device, [&](const std::string& text) { told.push_back(text); }});
  for (const int part : {kHeadBatch, 2, 4, kHeadBatch, 1}) {
    there.take_parts_of(part);
    host.step();
    there.step();
    expect_near(there.test(), host.test(), 2e-5);
  }
  expect_near(there.heads().states(), host.heads().states(), 2e-5);
  constexpr int kLayers = 4;
  EXPECT_EQ(device.traced.compiled, 3 * kLayers) << "for 8, 2 and 1 samples; 4 and 8 are multiples of 2";
  EXPECT_THAT(told, IsEmpty());
}

TEST(DeviceHeadsParts, ThatAreNotEqualAreTheHosts) {
  TracedDevice device;
  std::vector<std::string> told;
  const HeadsCase c{.name = "", .step = kMomentum};
  Trained host(c, 1);
  Trained there(c, {1, {}, &device, [&](const std::string& text) { told.push_back(text); }});
  host.step();
  there.step();
  for (int i = 0; i < 2; ++i) {
    host.step({{0, 4}, {4, 3}, {7, 1}});
    there.step({{0, 4}, {4, 3}, {7, 1}});
  }
  expect_near(there.heads().states(), host.heads().states(), 2e-5);
  ASSERT_EQ(told.size(), 4U) << "one for each layer";
  EXPECT_EQ(told[1],
            "the host computes dense layer dense1, because its batches of 8 come in parts that are not equal, "
            "such as 3 images from number 4 on");
}

TEST(DeviceHeadsRoom, IsLeftToOthersWhereItIsShort) {
  TracedDevice device;
  device.traced.no_room_for = "dense2";
  std::vector<std::string> told;
  const HeadsCase c{.name = "", .step = kMomentum};
  Trained host(c, 1);
  Trained there(c, {1, {}, &device, [&](const std::string& text) { told.push_back(text); }});
  for (int i = 0; i < 3; ++i) {
    host.step();
    there.step();
  }
  expect_near(there.heads().states(), host.heads().states(), 2e-5);
  EXPECT_THAT(told, ElementsAre("the host computes dense layer dense2, because reference cannot hold it (there is not "
                                "enough memory for dense2)"));
  EXPECT_EQ(device.traced.compiled, 3);
}

TEST(DeviceHeadsRoom, ALostDeviceIsNotShortOfIt) {
  TracedDevice device;
  device.traced.lost = true;
  Trained there({.name = "", .step = kMomentum}, {1, {}, &device});
  EXPECT_THROW(there.step(), DeviceLost);
}

TEST(DeviceHeadsBroken, AreNamedUntilOthersAreLoaded) {
  for (const bool parts_change : {false, true}) {
    TracedDevice device;
    Trained there({.name = "", .step = kMomentum}, {1, {}, &device});
    there.step();
    const auto sound = there.heads().states();
    auto states = sound;
    states[1].bias.value.data()[2] = std::numeric_limits<float>::infinity();
    there.heads().load(states);
    EXPECT_EQ(there.heads().broken(), "");
    there.step();
    if (parts_change) {  // the values go to the host and to another shard
      there.take_parts_of(4);
      there.step();
    }
    there.heads().states();
    EXPECT_EQ(there.heads().broken(), "dense1");
    there.heads().load(sound);
    EXPECT_EQ(there.heads().broken(), "");
    there.step();
    there.heads().states();
    EXPECT_EQ(there.heads().broken(), "");
  }
}

/// A trunk and its heads on one device, and two of them in one process, as members of an ensemble.
TEST(DeviceHeadsLearners, ShareADeviceWithTheirTrunks) {
  const Cut cut = net_of(kPlainNets[0]);
  TracedDevice device("eigen");
  struct Whole {
    Whole(const Cut& cut, Device& device, bool heads)
        : trunk(cut.trunk, input_shape(cut.trunk[0], kBatch), device),
          learner(trunk, cut, kBatch, {1, {}, heads ? &device : nullptr}) {
      learner.load(initial(cut));
    }
    LocalTrunk trunk;
    NetLearner learner;
  };
  Whole host(cut, device, false);
  Whole one(cut, device, true);
  Whole two(cut, device, true);
  train_some(host.learner, kPlainNets[0], cut, kBatch, 0, 3);
  for (int i = 0; i < 3; ++i) {
    train_some(one.learner, kPlainNets[0], cut, kBatch, i, i + 1);
    train_some(two.learner, kPlainNets[0], cut, kBatch, i, i + 1);
  }
  const auto expected = host.learner.state();
  for (Whole* each : {&one, &two}) {
    const auto state = each->learner.state();
    expect_near(state->head, expected->head, 1e-5);
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) convoy::expect_near(state->trunk[s], expected->trunk[s], 1e-5);
    EXPECT_FALSE(each->learner.broken());
  }
}

}  // namespace
}  // namespace convoy
