// Replicas on crews of slaves: they train as replicas in one process do, to the same bits each time, and lose no step when
// they lose slaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "core/random.hpp"
#include "master/cluster/cluster_replica.hpp"
#include "master/commands/load_net.hpp"
#include "tests/support/mortal_slaves.hpp"
#include "tests/support/process.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/states.hpp"
#include "tests/support/tiles.hpp"
#include "train/local_trunk.hpp"
#include "train/replica_learner.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

void expect_close(const ModelState& a, const ModelState& b) {
  ASSERT_EQ(a.trunk.size(), b.trunk.size());
  for (std::size_t s = 0; s < a.trunk.size(); ++s) expect_near(a.trunk[s], b.trunk[s], 1e-3);
}

// ---- fixed plans ---------------------------------------------------------------------------------------------------

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

/// Trains replicas on these trunks, three batches a step.
ModelState train_on(const std::vector<Trunk*>& trunks, const Cut& cut, const Cut& bare) {
  std::vector<std::unique_ptr<Replica>> replicas;
  for (Trunk* trunk : trunks) replicas.push_back(std::make_unique<Replica>(*trunk, bare, kBatch, 1));
  JoinLearner learner(std::move(replicas), cut, kBatch, kParts, 0, 1);
  learner.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut, kSeed), initial_heads(cut, kSeed)})});
  const TrainingOptions options{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.001, .clip = 0.05};
  std::vector<int> labels(kParts * kBatch);
  for (int step = 0; step < kSteps; ++step) {
    Random random(kSeed, 100 + static_cast<std::uint64_t>(step));
    const Images images =
        noise_images(input_shape(cut.trunk[0], kParts * kBatch), kSeed, 200 + static_cast<std::uint64_t>(step));
    for (int& label : labels) label = static_cast<int>(random.below(4));
    const Pass pass{.training = true, .seed = random.next(), .squares = true, .step = step + 1};
    train_step(learner, images, labels, pass,
               [&](double norm) { return update_step(options, options.learning_rate, step + 1, norm); });
  }
  EXPECT_FALSE(learner.broken());
  return *learner.state();
}

ModelState train_in_one_process(const Cut& cut, const Cut& bare) {
  const auto device = make_device("eigen", {.threads = 1});
  LocalTrunk trunk(bare.trunk, input_shape(bare.trunk[0], kBatch), *device);
  return train_on({&trunk}, cut, bare);
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

/// Uneven replicas, of which one does two of the three batches: who does which depends on the time, and the result does not,
/// where all plans give the same bits. Rows share the samples of a batch and join its statistics.
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

/// For nets with ReLUs, which another rounding may turn on or off. A step too many or too few changes the velocities by more.
void expect_close_in_norm(const ModelState& a, const ModelState& b) {
  ASSERT_EQ(a.trunk.size(), b.trunk.size());
  for (std::size_t s = 0; s < a.trunk.size(); ++s) expect_near_in_norm(a.trunk[s], b.trunk[s], 0.05);
}

// ---- runs ----------------------------------------------------------------------------------------------------------

NetOptions small_glyphs() {
  return {.net = source_folder() + "/nets/glyphs.yaml",
          .set = {"conv1.filters=5", "conv2.filters=9", "training.epochs=1000", "training.learning_rate=0.002"},
          .device = "eigen",
          .device_options = {.threads = 1},
          .batch = 8,
          .seed = kSeed};
}

class Notices : public Observer {
 public:
  Notices(std::vector<std::string>& texts, std::mutex& mutex, std::atomic<bool>& stop, const std::string& last)
      : texts_(texts), mutex_(mutex), stop_(stop), last_(last) {}
  void on_notice(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
    if (!last_.empty() && text.find(last_) != std::string::npos) stop_ = true;
  }

 private:
  std::vector<std::string>& texts_;
  std::mutex& mutex_;
  std::atomic<bool>& stop_;
  const std::string& last_;
};

struct Result {
  ModelState model;
  Progress progress;
  std::vector<std::string> notices;
};

/// A run of replicas on slaves, or on this machine where there are none.
class ReplicaRun {
 public:
  ReplicaRun(int slaves, int replicas) : replicas_(replicas) {
    options_.slaves = slaves;
    options_.listen = endpoint_;
    options_.insecure = true;
    observers_.push_back(std::make_unique<Notices>(notices_, mutex_, stop_, last_));
  }
  const std::string& endpoint() const { return endpoint_; }
  /// Ends the run after the step in which the run gives this notice.
  void stop_at(const std::string& notice) { last_ = notice; }
  /// Waits in another thread until the run has given a notice.
  void wait_for(const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(10ms);
      const std::lock_guard lock(mutex_);
      if (std::ranges::any_of(notices_, [&](const std::string& each) { return each.find(text) != each.npos; })) return;
    }
  }

  Result train(long steps) {
    std::vector<std::unique_ptr<Cluster>> clusters;
    if (options_.slaves == 0) {
      clusters.push_back(Cluster::assemble(options_, net_options_, net_, bare_, observers_, stop_));
    } else {
      clusters = assemble_replicas(replicas_, options_, net_options_, net_, bare_, observers_, stop_).clusters;
    }
    std::vector<std::unique_ptr<Replica>> replicas;
    for (const auto& each : clusters) {
      replicas.push_back(std::make_unique<ClusterReplica>(*each, bare_, net_.training.batch, 1));
    }
    JoinLearner learner(std::move(replicas), cut_, net_.training.batch, replicas_, 0, 1);
    const Training training{
        .net = net_, .training = batches_, .test = tests_, .seed = kSeed, .max_steps = steps, .stop = stop_};
    Result result;
    convoy::train(
        training, learner,
        {std::make_shared<const ModelState>(ModelState{initial_trunk(cut_, kSeed), initial_heads(cut_, kSeed)})},
        observers_, [&](const TrainingState& state) {
          result.progress = state.progress;
          result.model = *state.model;
        });
    for (const auto& each : clusters) each->dismiss("the test finished");
    result.notices = notices_;
    return result;
  }

 private:
  int replicas_;
  NetOptions net_options_ = small_glyphs();
  Net net_ = load_net(net_options_);
  Cut cut_ = cut(net_);
  Cut bare_ = without_moments(cut_);
  DataSet data_ = open_data("glyphs", kSeed);
  Batches batches_{data_, Part::training, replicas_* net_.training.batch, kSeed, net_.augment};
  Batches tests_{data_, Part::test, replicas_* net_.training.batch, kSeed, Augmentation{}};
  std::vector<std::string> notices_;
  std::mutex mutex_;
  Observers observers_;
  std::atomic<bool> stop_{false};
  std::string last_;
  std::string endpoint_ = free_endpoint();
  ClusterOptions options_;
};

constexpr long kRunSteps = 12;

/// Two batches a step on this machine.
Result alone() { return ReplicaRun(0, 2).train(kRunSteps); }

TEST(ReplicaRuns, GroupTheSlavesAndTrain) {
  ReplicaRun run(3, 2);
  const SlaveThreads slaves(run.endpoint(), 3, {"eigen"});
  const Result result = run.train(kRunSteps);
  EXPECT_THAT(result.notices, Contains(HasSubstr("replica 1 of 2: ")));
  EXPECT_THAT(result.notices, Contains(HasSubstr("replica 2 of 2: ")));
  const Result expected = alone();
  EXPECT_EQ(result.progress.batch, expected.progress.batch);
  expect_close_in_norm(result.model, expected.model);
}

TEST(ReplicaRuns, LoseNoStepWithASlave) {
  ReplicaRun run(4, 2);
  const SlaveThreads others(run.endpoint(), 3, {"eigen"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "mortal", "Step", 7);
  const Result result = run.train(kRunSteps);
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave mortal")));
  EXPECT_THAT(result.notices, Not(Contains(HasSubstr("going on after step"))));
  expect_close_in_norm(result.model, alone().model);
}

/// The replica that is left does both batches of a step.
TEST(ReplicaRuns, GoOnWithoutAReplica) {
  ReplicaRun run(2, 2);
  const SlaveThreads other(run.endpoint(), 1, {"eigen"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "mortal", "Step", 7);
  const Result result = run.train(kRunSteps);
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave mortal")));
  expect_close_in_norm(result.model, alone().model);
}

/// While its gradients travel, a slave dies; later the other, too.
TEST(ReplicaRuns, GoOnAloneWithoutAnySlave) {
  ReplicaRun run(2, 2);
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "p", "Snapshot", 5);
  mortal.add(run.endpoint(), "q", "Load", 11);
  const Result result = run.train(kRunSteps);
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave p")));
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave q")));
  expect_close_in_norm(result.model, alone().model);
}

/// A replica that has lost its only slave waits for another one.
TEST(ReplicaRuns, GiveAnEmptyReplicaTheNextSlave) {
  ReplicaRun run(2, 2);
  const SlaveThreads other(run.endpoint(), 1, {"eigen"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "mortal", "Step", 3);
  run.stop_at("slave next");
  std::thread later([&] {
    run.wait_for("slave mortal");
    mortal.add(run.endpoint(), "next", "nothing", 0);
  });
  const Result result = run.train(1000000);
  later.join();
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave mortal")));
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave next (")));
}

TEST(ReplicaRuns, NeedASlaveForEachReplica) {
  ReplicaRun run(2, 2);
  const SlaveThreads other(run.endpoint(), 1, {"eigen"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "mortal", "Calibrate", 0);
  try {
    run.train(kRunSteps);
    FAIL() << "the run began";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 slaves are left for 2 replicas"));
  }
}

}  // namespace
}  // namespace convoy
