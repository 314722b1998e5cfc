// A small net that is trained on slaves in threads, or on one device, for tests of clusters.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "master/cluster/cluster_trunk.hpp"
#include "plan/task_graph.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/states.hpp"
#include "train/local_trunk.hpp"
#include "train/train.hpp"

namespace convoy {

using namespace std::chrono_literals;

inline constexpr int kBatch = 4;
inline constexpr int kSteps = 20;
inline constexpr std::uint64_t kSeed = 11;

/// A net of two stages with odd sizes and several channel layers, and a dense head.
inline Cut small_net() {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 2,
                .height = 11,
                .width = 9,
                .conv = {.filters = 5, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {Activation::relu, Pooling{}}},
               {.name = "conv2",
                .channels = 5,
                .height = 5,
                .width = 4,
                .conv = {.filters = 9, .kernel_h = 3, .kernel_w = 2, .pad = {1, 0, 1, 1}},
                .after = {Activation::tanh, Dropout{0.25F, 0}, Pooling{.kind = PoolKind::average}}}};
  cut.heads = {{.maps = {9, 2, 2},
                .layers = {{.name = "dense1", .spec = Dense{4}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  return cut;
}

struct Result {
  std::vector<ShardState> trunk;
  double loss = 0.0;
};

inline TrainingOptions plain_sgd() { return {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.001}; }

/// Trains kSteps steps on random images. The images are the same for every trunk.
inline Result train_some(
    Trunk& trunk, const Cut& cut, const std::function<void(int step)>& before = [](int) {},
    const TrainingOptions& options = plain_sgd(), int steps = kSteps) {
  NetLearner learner(trunk, cut, kBatch);
  learner.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut, kSeed), initial_heads(cut, kSeed)})});
  std::vector<int> labels(kBatch);
  Result result;
  for (int step = 0; step < steps; ++step) {
    before(step);
    Random random(kSeed, 100 + static_cast<std::uint64_t>(step));
    const Images images =
        noise_images(input_shape(cut.trunk[0], kBatch), kSeed, 200 + static_cast<std::uint64_t>(step));
    for (int& label : labels) label = static_cast<int>(random.below(4));
    const Pass pass{.training = true, .seed = random.next(), .squares = options.clip > 0.0};
    const auto update = [&](double norm) {
      if (options.clip > 0.0) {
        EXPECT_GT(norm, options.clip) << "the test needs gradients that are clipped";
      }
      return update_step(options, options.learning_rate, step + 1, norm);
    };
    result.loss += train_step(learner, images, labels, pass, update).sum;
  }
  result.trunk = trunk.snapshot();
  return result;
}

inline Result train_local(const std::string& device_name) {
  const Cut cut = small_net();
  const auto device = make_device(device_name, {.threads = 1});
  LocalTrunk trunk(cut.trunk, input_shape(cut.trunk[0], kBatch), *device);
  return train_some(trunk, cut);
}

using Names = std::vector<std::string>;

/// Trains on slaves that use `devices` in turn. The master's own device is the first.
inline Result train_on_slaves(const Names& devices, int slaves, const std::vector<double>& shares, bool own,
                              const std::function<void(Plan&)>& change = {}) {
  const Cut cut = small_net();
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  SlaveThreads threads(lobby.endpoint(), slaves, devices);
  const std::atomic<bool> stop{false};
  crew.gather(slaves, stop, [] {});
  std::vector<std::string> members;
  for (const SlaveInfo& slave : crew.slaves()) members.push_back(slave.name);
  const auto device = make_device(devices.front(), {.threads = 1});
  if (own) members.emplace_back("master");
  Plan plan = proportional_plan(cut.trunk, kBatch, members, shares);
  if (change) change(plan);
  ClusterTrunk trunk(cut.trunk, plan, crew, own ? device.get() : nullptr, 60s);
  Result result = train_some(trunk, cut);
  const std::vector<Traffic> traffic = traffic_of(make_task_graph(plan, cut.trunk), plan, cut.trunk);
  const std::vector<MemberTime> times = trunk.take_times();
  double compute = 0.0;
  double received = 0.0;
  for (std::size_t member = 0; member < times.size(); ++member) {
    compute += times[member].compute;
    EXPECT_DOUBLE_EQ(times[member].sent, kSteps * traffic[member].sent);
    EXPECT_DOUBLE_EQ(times[member].received, kSteps * traffic[member].received);
    received += times[member].received;
  }
  EXPECT_GT(received, 0.0) << "images at least";
  EXPECT_GT(compute, 0.0);
  if (own) {
    EXPECT_GT(times.back().wait, 0.0) << "the master waits for its slaves";
  }
  crew.dismiss("the test finished");
  return result;
}

/// `epsilon` is the relative rounding error of the number type on the wire.
inline void expect_close(const Result& got, const Result& expected, double epsilon = 0x1.0p-24) {
  // The tolerance allows for twenty steps of rounding errors in sums of at most 54 products, or 80 in gradients.
  const double tolerance = 64.0 * kSteps * std::sqrt(80.0) * epsilon;
  EXPECT_NEAR(got.loss, expected.loss, tolerance * kSteps);
  for (std::size_t s = 0; s < expected.trunk.size(); ++s) {
    const auto a = got.trunk[s].weights().span();
    const auto b = expected.trunk[s].weights().span();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "stage " << s << " weight " << i;
  }
}

inline void expect_equal(const Result& a, const Result& b) {
  EXPECT_EQ(a.loss, b.loss);
  for (std::size_t s = 0; s < a.trunk.size(); ++s) {
    ASSERT_TRUE(same_bits(a.trunk[s], b.trunk[s])) << "stage " << s;
  }
}

}  // namespace convoy
