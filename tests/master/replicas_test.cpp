// Replicas on crews of slaves with fixed plans: they train as replicas in one process do, to the same bits each time.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>

#include "core/random.hpp"
#include "master/cluster/cluster_replica.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/states.hpp"
#include "tests/support/tiles.hpp"
#include "train/local_steps_learner.hpp"
#include "train/local_trunk.hpp"
#include "train/replica_learner.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

void expect_close(const ModelState& a, const ModelState& b) {
  ASSERT_EQ(a.trunk.size(), b.trunk.size());
  for (std::size_t s = 0; s < a.trunk.size(); ++s) expect_near(a.trunk[s], b.trunk[s], 1e-3);
}

constexpr int kBatch = 4;
constexpr int kParts = 3;
constexpr int kSteps = 6;
constexpr std::uint64_t kSeed = 5;

/// A net of two stages with batch norm and a dense head.
Cut small_net() {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 2,
                .height = 8,
                .width = 6,
                .conv = {.filters = 5, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {BatchNorm{.name = "norm1"}, Activation::tanh, Pooling{.kind = PoolKind::average}}},
               {.name = "conv2",
                .channels = 5,
                .height = 4,
                .width = 3,
                .conv = {.filters = 6, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {Activation::tanh}}};
  cut.heads = {{.maps = {6, 4, 3},
                .layers = {{.name = "dense1", .spec = Dense{4}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  return cut;
}

using Alone = std::optional<ExchangePeriod>;

/// The learner of these trunks: of a join, or of steps that each replica takes by itself in a period. What replicas
/// exchange travels in `type`.
std::unique_ptr<Learner> learner_of(const std::vector<Trunk*>& trunks, const Cut& cut, const Cut& computed,
                                    NumberType type, const Alone& alone) {
  std::vector<std::unique_ptr<Replica>> replicas;
  for (Trunk* trunk : trunks) replicas.push_back(std::make_unique<Replica>(*trunk, computed, kBatch, 1));
  if (alone) {
    auto learner = std::make_unique<LocalStepsLearner>(std::move(replicas), cut, kBatch, kParts, *alone, 1);
    learner->carry_in(type);
    return learner;
  }
  auto learner = std::make_unique<JoinLearner>(std::move(replicas), cut, kBatch, kParts, 0, 1);
  learner->carry_in(type);
  return learner;
}

/// Trains replicas on these trunks, three batches a step.
ModelState train_on(const std::vector<Trunk*>& trunks, const Cut& cut, const Cut& computed,
                    NumberType type = NumberType::fp32, const Alone& alone = {}) {
  const std::unique_ptr<Learner> made = learner_of(trunks, cut, computed, type, alone);
  Learner& learner = *made;
  learner.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut, kSeed), initial_heads(cut, kSeed)})});
  const TrainingOptions options{
      .learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.001, .clip = alone ? 0.0 : 0.05};
  std::vector<int> labels(kParts * kBatch);
  for (int step = 0; step < kSteps; ++step) {
    Random random(kSeed, 100 + static_cast<std::uint64_t>(step));
    const Images images =
        noise_images(input_shape(cut.trunk[0], kParts * kBatch), kSeed, 200 + static_cast<std::uint64_t>(step));
    for (int& label : labels) label = static_cast<int>(random.below(4));
    const Pass pass{.training = true, .seed = random.next(), .squares = !alone, .step = step + 1};
    train_step(
        learner, images, labels, pass,
        [&](double norm) { return update_step(options, options.learning_rate, step + 1, norm); },
        [&](const BatchLoss&) { return Progress{.batch = step + 1}; });
  }
  EXPECT_FALSE(learner.broken());
  return *learner.state();
}

ModelState train_in_one_process(const Cut& cut, const Cut& bare, NumberType type = NumberType::fp32) {
  const auto device = make_device("eigen", {.threads = 1});
  LocalTrunk trunk(bare.trunk, input_shape(bare.trunk[0], kBatch), *device);
  return train_on({&trunk}, cut, bare, type);
}

/// Two crews, one of three slaves and one of two, with plans that `change` has changed.
ModelState train_on_crews(const Cut& cut, const Cut& bare, const std::function<void(Plan&)>& change) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew one(lobby);
  Crew other(lobby);
  const SlaveThreads threads(lobby.endpoint(), 5, {"eigen"});
  const std::atomic<bool> stop{false};
  EXPECT_TRUE(one.gather(5, stop, [] {}));
  one.hand_over("b", other);
  one.hand_over("d", other);
  Plan large = proportional_plan(bare.trunk, kBatch, {"a", "c", "e"}, {1, 3, 2});
  Plan small = proportional_plan(bare.trunk, kBatch, {"b", "d"}, {1, 2});
  change(large);
  change(small);
  ClusterTrunk first(bare.trunk, large, one, nullptr, 20s);
  ClusterTrunk second(bare.trunk, small, other, nullptr, 20s);
  ModelState model = train_on({&first, &second}, cut, bare);
  one.dismiss("the test finished");
  other.dismiss("the test finished");
  return model;
}

/// Uneven replicas, of which one does two of the three batches: who does which depends on the time, and the result does
/// not, where all plans give the same bits. Rows share the samples of a batch and join its statistics.
TEST(ReplicasOnCrews, TrainAsInOneProcess) {
  const Cut cut = small_net();
  const Cut bare = without_moments(cut);
  const ModelState expected = train_in_one_process(cut, bare);
  const auto plain = [](Plan&) {};
  const auto ring = [](Plan& plan) {
    plan.exchange = Exchange::ring;
    set_micro_batches(plan, 2);
  };
  for (const std::function<void(Plan&)>& change :
       {std::function<void(Plan&)>(plain), std::function<void(Plan&)>(ring)}) {
    expect_close(train_on_crews(cut, bare, change), expected);
  }
}

/// One batch for each replica, so that each batch always has the same plan.
TEST(ReplicasOnCrews, RepeatToTheBit) {
  const Cut cut = small_net();
  const Cut bare = without_moments(cut);
  const auto run = [&](Exchange exchange) {
    Lobby lobby("tcp://127.0.0.1:*", "test");
    std::vector<std::unique_ptr<Crew>> crews;
    for (int i = 0; i < kParts; ++i) crews.push_back(std::make_unique<Crew>(lobby));
    const SlaveThreads threads(lobby.endpoint(), 4, {"eigen"});
    const std::atomic<bool> stop{false};
    EXPECT_TRUE(crews[0]->gather(4, stop, [] {}));
    crews[0]->hand_over("c", *crews[1]);
    crews[0]->hand_over("d", *crews[2]);
    std::vector<std::unique_ptr<ClusterTrunk>> trunks;
    std::vector<Trunk*> all;
    for (const auto& crew : crews) {
      std::vector<std::string> members;
      for (const SlaveInfo& slave : crew->slaves()) members.push_back(slave.name);
      Plan plan = proportional_plan(bare.trunk, kBatch, members, std::vector<double>(members.size(), 1.0));
      plan.exchange = exchange;
      trunks.push_back(std::make_unique<ClusterTrunk>(bare.trunk, plan, *crew, nullptr, 20s));
      all.push_back(trunks.back().get());
    }
    ModelState model = train_on(all, cut, bare);
    for (const auto& crew : crews) crew->dismiss("the test finished");
    trunks.clear();
    crews.clear();
    return model;
  };
  const ModelState once = run(Exchange::star);
  const ModelState again = run(Exchange::star);
  for (std::size_t s = 0; s < once.trunk.size(); ++s) EXPECT_TRUE(same_bits(once.trunk[s], again.trunk[s]));
}

/// Trains three replicas of one slave each, and returns in `traffic` what they exchanged.
ModelState train_on_slaves(const Cut& cut, const Cut& computed, NumberType type, const Alone& alone,
                           MemberTime& traffic) {
  Lobby lobby("tcp://127.0.0.1:*", "test");
  std::vector<std::unique_ptr<Crew>> crews;
  for (int i = 0; i < kParts; ++i) crews.push_back(std::make_unique<Crew>(lobby));
  const SlaveThreads threads(lobby.endpoint(), kParts, {"eigen"});
  const std::atomic<bool> stop{false};
  EXPECT_TRUE(crews[0]->gather(kParts, stop, [] {}));
  crews[0]->hand_over("b", *crews[1]);
  crews[0]->hand_over("c", *crews[2]);
  std::vector<std::unique_ptr<ClusterTrunk>> trunks;
  std::vector<Trunk*> all;
  for (const auto& crew : crews) {
    const Plan plan = proportional_plan(computed.trunk, kBatch, {crew->slaves().front().name}, {1.0});
    trunks.push_back(std::make_unique<ClusterTrunk>(computed.trunk, plan, *crew, nullptr, 20s));
    all.push_back(trunks.back().get());
  }
  ModelState model = train_on(all, cut, computed, type, alone);
  for (const auto& trunk : trunks) {
    for (const MemberTime& time : trunk->take_times()) {
      traffic.states_sent += time.states_sent;
      traffic.states_received += time.states_received;
    }
  }
  for (const auto& crew : crews) crew->dismiss("the test finished");
  trunks.clear();
  crews.clear();
  return model;
}

/// Returns the bytes of all weights, running averages and moments, where those of trained parameters travel in `type`.
double bytes_in(NumberType type, const Cut& computed) {
  std::size_t bytes = 0;
  for (const Stage& stage : computed.trunk) {
    for (const ParameterSpec& spec : parameters_of(stage, stage.conv.filters)) {
      const int tensors = spec.trained ? 1 + stage.moments : 1;
      bytes += static_cast<std::size_t>(tensors) * bytes_of(spec.trained ? type : NumberType::fp32, spec.shape.size());
    }
  }
  return static_cast<double>(bytes);
}

void expect_same_bits(const ModelState& a, const ModelState& b) {
  for (std::size_t s = 0; s < a.trunk.size(); ++s) EXPECT_TRUE(same_bits(a.trunk[s], b.trunk[s])) << s;
}

/// It makes no difference to a bit whether weights and gradients travel, and they take the bytes that they should:
/// weights and biases those of the number type, running averages four, once each way for each batch.
TEST(ReplicasOnCrews, TravelInTheTypeOfTheWire) {
  const Cut cut = small_net();
  const Cut bare = without_moments(cut);
  std::vector<ModelState> models;
  for (const NumberType type : {NumberType::fp32, NumberType::bf16, NumberType::fp16}) {
    SCOPED_TRACE(to_string(type));
    MemberTime traffic;
    models.push_back(train_on_slaves(cut, bare, type, {}, traffic));
    EXPECT_EQ(traffic.states_sent, bytes_in(type, bare) * kSteps * kParts);
    EXPECT_EQ(traffic.states_received, bytes_in(type, bare) * kSteps * kParts);
    expect_same_bits(models.back(), train_in_one_process(cut, bare, type));
  }
  EXPECT_FALSE(same_bits(models[0].trunk[0], models[1].trunk[0]));
  for (std::size_t s = 0; s < models[0].trunk.size(); ++s) {
    expect_near(models[1].trunk[s], models[0].trunk[s], 1e-2);
  }
}

/// Replicas that train by themselves exchange weights after every second step, moments after every fourth, and in bf16
/// half of the bytes.
TEST(ReplicasOnCrews, TakeLocalStepsInTheTypeOfTheWire) {
  const ExchangePeriod period{.steps = 2, .moments = 4};
  constexpr int kExchanges = kSteps / 2;
  constexpr int kOfMoments = kSteps / 4;
  Cut cut = small_net();
  for (Stage& stage : cut.trunk) stage.moments = cut.moments;
  const auto device = make_device("eigen", {.threads = 1});
  std::vector<ModelState> models;
  for (const NumberType type : {NumberType::fp32, NumberType::bf16}) {
    SCOPED_TRACE(to_string(type));
    MemberTime traffic;
    models.push_back(train_on_slaves(cut, cut, type, period, traffic));
    const double values = bytes_in(type, without_moments(cut));
    const double moments = bytes_in(type, cut) - values;
    EXPECT_EQ(traffic.states_sent, (kExchanges * values + kOfMoments * moments) * kParts);
    // A replica begins with the moments of the master; after the last exchange it is given nothing.
    const int given = 1 + (kSteps - 1) / 4;
    EXPECT_EQ(traffic.states_received, (kExchanges * values + given * moments) * kParts);
    std::vector<std::unique_ptr<LocalTrunk>> trunks;
    std::vector<Trunk*> all;
    for (int i = 0; i < kParts; ++i) {
      trunks.push_back(std::make_unique<LocalTrunk>(cut.trunk, input_shape(cut.trunk[0], kBatch), *device));
      all.push_back(trunks.back().get());
    }
    expect_same_bits(models.back(), train_on(all, cut, cut, type, period));
  }
  EXPECT_FALSE(same_bits(models[0].trunk[0], models[1].trunk[0]));
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(models[1].trunk[s], models[0].trunk[s], 1e-2);
}

/// Shares of filters move to where they are computed faster, but not between two exchanges: slaves know by how much
/// their weights have changed only under the plan under which they were loaded.
TEST(ReplicasOnCrews, MoveSharesWhereLocalStepsInBf16AreExchanged) {
  Cut cut = small_net();
  cut.trunk[0].conv.filters = 64;
  cut.trunk[1].channels = 64;
  cut.trunk[1].conv.filters = 64;
  cut.heads[0].maps.channels = 64;
  for (Stage& stage : cut.trunk) stage.moments = cut.moments;
  Lobby lobby("tcp://127.0.0.1:*", "test");
  Crew crew(lobby);
  const SlaveThreads threads(lobby.endpoint(), 2, {"eigen"});
  const std::atomic<bool> stop{false};
  ASSERT_TRUE(crew.gather(2, stop, [] {}));
  const Plan uneven = proportional_plan(cut.trunk, kBatch, {"a", "b"}, {1, 15});
  const auto equally_fast = [](const std::string& name) {
    const std::vector<Timing> times{{4, 0.1, 0.1, 0.1}, {64, 1.6, 1.6, 1.6}};
    return MemberProfile{.name = name, .stages = {times, times}};
  };
  int moves = 0;
  {
    ClusterTrunk trunk(cut.trunk, uneven, crew, nullptr, 20s,
                       {.profiles = {equally_fast("a"), equally_fast("b")}, .first_steps = 2},
                       [&](const Plan&) { ++moves; });
    const auto device = make_device("eigen", {.threads = 1});
    LocalTrunk local(cut.trunk, input_shape(cut.trunk[0], kBatch), *device);
    std::vector<std::unique_ptr<LocalTrunk>> more;
    for (int i = 0; i < 4; ++i) {
      more.push_back(std::make_unique<LocalTrunk>(cut.trunk, input_shape(cut.trunk[0], kBatch), *device));
    }
    const auto train = [&](Trunk& one, int first) {
      return train_on({&one, more[first].get(), more[first + 1].get()}, cut, cut, NumberType::bf16,
                      ExchangePeriod{.steps = 2, .moments = 4});
    };
    const ModelState got = train(trunk, 0);
    const ModelState expected = train(local, 2);
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(got.trunk[s], expected.trunk[s], 1e-3);
  }
  EXPECT_GE(moves, 1);
  crew.dismiss("the test finished");
}

}  // namespace
}  // namespace convoy
