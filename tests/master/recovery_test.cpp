// Tests runs whose slaves die, join and leave. No step may be lost, and the weights must be those of a run that changed
// its plan at the same steps without losing a slave.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "tests/support/fake_slave.hpp"
#include "tests/support/mortal_slaves.hpp"
#include "tests/support/process.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/states.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;

constexpr std::uint64_t kSeed = 5;

NetOptions small_glyphs() {
  return {.net = source_folder() + "/nets/glyphs.yaml",
          .set = {"conv1.filters=5", "conv2.filters=9"},
          .device = "eigen",
          .device_options = {.threads = 1},
          .batch = 8,
          .seed = kSeed};
}

class Notices : public Observer {
 public:
  Notices(std::vector<std::string>& texts, std::atomic<bool>& stop, const std::string& last)
      : texts_(texts), stop_(stop), last_(last) {}
  void on_notice(const std::string& text) override {
    texts_.push_back(text);
    if (!last_.empty() && text.find(last_) != std::string::npos) stop_ = true;
  }

 private:
  std::vector<std::string>& texts_;
  std::atomic<bool>& stop_;
  const std::string& last_;
};

/// The results of a run.
struct Result {
  ModelState model;
  Progress progress;
  Plan plan;
  std::vector<std::string> notices;
};

class TrainingRun {
 public:
  explicit TrainingRun(ClusterOptions options) : options_(std::move(options)) {
    options_.listen = endpoint_;
    options_.insecure = true;
    observers_.push_back(std::make_unique<Notices>(notices_, stop_, last_));
  }
  const std::string& endpoint() const { return endpoint_; }
  /// The progress of what was last saved.
  const Progress& saved() const { return saved_; }
  /// Ends the run after the current step.
  void stop() { stop_ = true; }
  /// Ends the run after the step in which the run gives this notice.
  void stop_at(const std::string& notice) { last_ = notice; }

  /// Trains from the beginning, or from the state that another run has reached.
  Result train(long steps, double snapshot_seconds, const Result* from = nullptr) {
    const auto cluster = Cluster::assemble(options_, net_options_, net_, cut_, observers_, stop_);
    auto start = std::make_shared<const ModelState>(
        from != nullptr ? from->model : ModelState{initial_trunk(cut_, kSeed), initial_heads(cut_, kSeed)});
    const Training training{
        .net = net_, .training = batches_, .test = tests_, .seed = kSeed, .max_steps = steps, .stop = stop_};
    ClusterLearner learner(*cluster, cut_, net_.training.batch, snapshot_seconds);
    Result result;
    convoy::train(training, learner, {start, from != nullptr ? from->progress : Progress()}, observers_,
                  [&](const TrainingState& state) {
                    saved_ = result.progress = state.progress;
                    result.model = *state.model;
                  });
    result.plan = cluster->plan();
    cluster->dismiss("the test finished");
    result.notices = notices_;
    return result;
  }

 private:
  NetOptions net_options_ = small_glyphs();
  Net net_ = load_net(net_options_);
  Cut cut_ = cut(net_);
  DataSet data_ = open_data("glyphs", kSeed);
  Batches batches_{data_, Part::training, net_.training.batch, kSeed, net_.augment};
  Batches tests_{data_, Part::test, net_.training.batch, kSeed, Augmentation{}};
  Progress saved_;
  std::vector<std::string> notices_;
  Observers observers_;
  std::atomic<bool> stop_{false};
  std::string last_;
  std::string endpoint_ = free_endpoint();
  ClusterOptions options_;
};

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.span().size(), b.span().size());
  EXPECT_TRUE(std::ranges::equal(a.span(), b.span()));
}

void expect_equal(const ModelState& a, const ModelState& b) {
  ASSERT_EQ(a.trunk.size(), b.trunk.size());
  for (std::size_t s = 0; s < a.trunk.size(); ++s) {
    EXPECT_TRUE(same_bits(a.trunk[s], b.trunk[s])) << "stage " << s;
  }
  for (std::size_t d = 0; d < a.head.size(); ++d) {
    expect_equal(a.head[d].weights.value, b.head[d].weights.value);
    expect_equal(a.head[d].bias.moments[0], b.head[d].bias.moments[0]);
  }
}

void expect_near(const ModelState& a, const ModelState& b) {
  for (std::size_t s = 0; s < a.trunk.size(); ++s) {
    const auto x = a.trunk[s].weights().span();
    const auto y = b.trunk[s].weights().span();
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-3) << "stage " << s << " weight " << i;
  }
}

constexpr long kSteps = 12;
constexpr long kWithoutEnd = 1000000;
constexpr double kEachStep = 1e-9;
constexpr double kNever = 1e9;

struct Death {
  std::string name;
  std::string exchange;
  std::string at;  ///< the message at which the slave dies
  int spared;
  double snapshots;
  long least;  ///< smallest number of steps that the run keeps
  long most;
};

void PrintTo(const Death& death, std::ostream* out) { *out << death.name; }

/// The number of steps whose results were kept when a slave was lost; 0 if it was lost before the first step.
long back_to(const Result& result) {
  const std::string begin = "going on after step ";
  for (const std::string& notice : result.notices) {
    if (notice.starts_with(begin)) return std::stol(notice.substr(begin.size()));
  }
  return 0;
}

class Deaths : public testing::TestWithParam<Death> {};

TEST_P(Deaths, LeaveTheWeightsOfARunThatChangedItsPlanThere) {
  const Death& death = GetParam();
  const ClusterOptions three{.slaves = 3, .shares = "3,2,2", .exchange = death.exchange};
  Result disturbed;
  {
    TrainingRun run(three);
    const SlaveThreads others(run.endpoint(), 2, {"eigen"});
    MortalSlaves mortal;
    mortal.add(run.endpoint(), "mortal", death.at, death.spared);
    disturbed = run.train(kSteps, death.snapshots);
  }
  EXPECT_EQ(disturbed.plan.members, (std::vector<std::string>{"a", "b"}));
  EXPECT_THAT(disturbed.notices, Contains(HasSubstr("slave mortal")));
  const long stayed = back_to(disturbed);
  ASSERT_GE(stayed, death.least);
  ASSERT_LE(stayed, death.most);

  Result before;
  if (stayed > 0) {
    TrainingRun run(three);
    const SlaveThreads others(run.endpoint(), 2, {"eigen"});
    MortalSlaves mortal;
    mortal.add(run.endpoint(), "mortal", "nothing", 0);
    before = run.train(stayed, kNever);
  }
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/plan.json";
  std::ofstream(file) << to_json(disturbed.plan);
  TrainingRun run({.slaves = 2, .plan = file});
  const SlaveThreads others(run.endpoint(), 2, {"eigen"});
  const Result undisturbed = run.train(kSteps, kNever, stayed > 0 ? &before : nullptr);
  EXPECT_EQ(disturbed.progress, undisturbed.progress);
  expect_equal(disturbed.model, undisturbed.model);
}

INSTANTIATE_TEST_SUITE_P(Table, Deaths,
                         testing::Values(Death{"InAStepOfAStar", "star", "Step", 7, kEachStep, 1, 7},
                                         Death{"InAStepOfARing", "ring", "Step", 7, kEachStep, 1, 7},
                                         Death{"InASnapshot", "star", "Snapshot", 4, kEachStep, 1, 11},
                                         Death{"LongAfterTheLastSnapshot", "ring", "Step", 7, kNever, 0, 0},
                                         Death{"BeforeTheFirstStep", "star", "Load", 0, kNever, 0, 0}),
                         [](const auto& each) { return each.param.name; });

/// The results of a master that trains alone.
Result alone() { return TrainingRun(ClusterOptions()).train(kSteps, kNever); }

TEST(Losses, OfSeveralAtOnceAndOfOneMoreMeanwhile) {
  TrainingRun run({.slaves = 4, .shares = "1,1,1,1", .exchange = "ring"});
  const SlaveThreads survivor(run.endpoint(), 1, {"eigen"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "p", "Step", 4);
  mortal.add(run.endpoint(), "q", "Step", 4);
  mortal.add(run.endpoint(), "r", "Load", 2);  // r dies at the Load for the plan without p and q
  const Result result = run.train(kSteps, kEachStep);
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a"}));
  expect_near(result.model, alone().model);
}

TEST(Losses, OfAllLeaveTheMasterToGoOnAlone) {
  TrainingRun run({.slaves = 2, .exchange = "star"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "p", "Step", 3);
  mortal.add(run.endpoint(), "q", "Step", 4);
  const Result result = run.train(kSteps, kEachStep);
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"master"}));
  EXPECT_THAT(result.notices, Contains(HasSubstr("this machine goes on alone")));
  expect_near(result.model, alone().model);
}

TEST(Losses, WaitForSlavesWhereTheUserSaysSo) {
  TrainingRun run({.slaves = 1, .least_slaves = 1, .exchange = "star"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "p", "Step", 3);
  std::unique_ptr<SlaveThreads> next;
  std::thread later([&] {
    std::this_thread::sleep_for(2s);
    next = std::make_unique<SlaveThreads>(run.endpoint(), 1, std::vector<std::string>{"eigen"});
  });
  const Result result = run.train(kSteps, kEachStep);
  later.join();
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a"}));
  expect_near(result.model, alone().model);
}

/// The slave's process answers heartbeats, but its thread hangs. No calibration tells how long a step may take.
TEST(Losses, OfAThreadThatHangsAreNoticedByWhatTasksTook) {
  TrainingRun run({.slaves = 2, .shares = "1,1", .exchange = "star"});
  const SlaveThreads other(run.endpoint(), 1, {"eigen"});
  FakeSlave slave(run.endpoint(), "Step", [](FakeSlave& each) { each.hang(); }, {.name = "stuck", .spared = 8});
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const Result result = run.train(kSteps, kEachStep);
  stop = true;
  thread.join();
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave stuck hangs: it has not answered for 3 s")));
  expect_near(result.model, alone().model);
}

/// The link between two slaves breaks while the master still reaches both.
TEST(Losses, OfALinkBetweenSlavesLeaveAStar) {
  TrainingRun run({.slaves = 2, .shares = "1,1", .exchange = "ring"});
  const SlaveThreads other(run.endpoint(), 1, {"eigen"});
  FakeSlave slave(run.endpoint(), "Step",
                  [](FakeSlave& each) {
                    each.send(wire::Unreached{{"a"}});
                    for (int i = 0; i < 70; ++i) {
                      std::this_thread::sleep_for(100ms);
                      each.send(wire::Ping{});
                    }
                  },
                  {.name = "cut", .spared = 3, .reachable = true, .times = 1});
  const std::atomic<bool> never{false};
  std::thread thread([&] { slave.run(never); });
  const Result result = run.train(kSteps, kEachStep);
  thread.join();
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a", "cut"}));
  EXPECT_EQ(result.plan.exchange, Exchange::star);
  EXPECT_THAT(result.notices, Contains(HasSubstr("maps go through the master instead")));
  expect_near(result.model, alone().model);
}

/// It has no link to another slave in a star, so there is nothing else to try.
TEST(Losses, OfASlaveThatNeverReachesItsPeersLeaveTheOthers) {
  TrainingRun run({.slaves = 2, .shares = "1,1", .exchange = "ring"});
  const SlaveThreads other(run.endpoint(), 1, {"eigen"});
  FakeSlave slave(run.endpoint(), "Assign", [](FakeSlave& each) { each.send(wire::Unreached{{"\xff\x1b[2J"}}); },
                  {.name = "evil", .reachable = true});
  std::atomic<bool> stop{false};
  std::thread thread([&] { slave.run(stop); });
  const Result result = run.train(kSteps, kEachStep);
  stop = true;
  thread.join();
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a"}));
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave evil cannot connect to \\xff\\x1b[2J")));
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave evil broke the protocol: an Unreached")));
  expect_near(result.model, alone().model);
}

TEST(Losses, WithoutAStepInBetweenEndTheRun) {
  TrainingRun run({.slaves = 1, .least_slaves = 1, .exchange = "star"});
  std::atomic<bool> stop{false};
  std::thread failing([&] {
    FakeSlave first(run.endpoint(), "Step", [](FakeSlave& each) { each.vanish(); }, {.name = "first", .spared = 4});
    first.run(stop);
    for (int life = 0; life < 100 && !stop; ++life) {
      FakeSlave slave(run.endpoint(), "Load", [](FakeSlave& each) { each.vanish(); });
      slave.run(stop);
    }
    run.stop();
  });
  EXPECT_THAT([&] { run.train(kSteps, kEachStep); },
              testing::ThrowsMessage<PeerLost>(HasSubstr("slaves were lost 22 times without a step in between")));
  EXPECT_GE(run.saved().batch, 1);
  stop = true;
  failing.join();
}

/// A run that cannot go on without a slave takes it back, however often it was lost.
TEST(Losses, DoNotKeepASlaveOutThatTheRunNeeds) {
  TrainingRun run({.slaves = 1, .least_slaves = 1, .exchange = "star"});
  std::atomic<bool> stop{false};
  std::thread failing([&] {
    for (int life = 0; life < 4; ++life) {
      FakeSlave slave(run.endpoint(), "Step", [](FakeSlave& each) { each.vanish(); });
      slave.run(stop);
    }
    FakeSlave sound(run.endpoint(), "nothing", [](FakeSlave&) {});
    sound.run(stop);
  });
  std::thread clock([&] {
    for (int i = 0; i < 300 && !stop; ++i) std::this_thread::sleep_for(100ms);
    run.stop();
  });
  const Result result = run.train(kSteps, kEachStep);
  stop = true;
  failing.join();
  clock.join();
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"evil"}));
  EXPECT_EQ(result.progress.batch, kSteps);
}

/// A slave that fails again and again does not delay the others for ever.
TEST(Losses, OfTheSameSlaveAgainAndAgainEnd) {
  TrainingRun run({.slaves = 2, .exchange = "star"});
  const SlaveThreads survivor(run.endpoint(), 1, {"eigen"});
  std::string refusal;
  std::thread failing([&] {
    const std::atomic<bool> never{false};
    while (refusal.find("has lost evil 3 times in a row") == std::string::npos) {
      FakeSlave slave(run.endpoint(), "Step", [](FakeSlave& each) { each.vanish(); });
      slave.run(never);
      refusal = slave.refusal();
    }
    run.stop();
  });
  const Result result = run.train(kWithoutEnd, kEachStep);
  failing.join();
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a"}));
  const auto tells_of_a_loss = [](const std::string& text) { return text.starts_with("slave evil is gone"); };
  EXPECT_EQ(std::ranges::count_if(result.notices, tells_of_a_loss), 3);
}

TEST(Newcomers, TakePartFromTheNextStepOn) {
  TrainingRun run({.slaves = 1, .exchange = "ring"});
  const SlaveThreads first(run.endpoint(), 1, {"eigen"});
  std::thread later;
  MortalSlaves second;
  later = std::thread([&] {
    std::this_thread::sleep_for(1s);
    second.add(run.endpoint(), "late", "nothing", 0);
  });
  run.stop_at("joins");
  const Result result = run.train(kWithoutEnd, kNever);
  later.join();
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"a", "late"}));
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave late (none) joins")));
}

/// The fake slave knows floats alone, and others do not pay for it.
TEST(Newcomers, ThatDoNotKnowTheWireAreLeftOut) {
  TrainingRun run({.slaves = 1, .exchange = "star", .wire = "bf16"});
  const SlaveThreads first(run.endpoint(), 1, {"eigen"});
  MortalSlaves second;
  std::thread later([&] {
    std::this_thread::sleep_for(1s);
    second.add(run.endpoint(), "old", "nothing", 0);
  });
  run.stop_at("slave old cannot send and receive bf16");
  const Result result = run.train(kWithoutEnd, kNever);
  later.join();
  EXPECT_THAT(result.notices, Contains(EndsWith("; 1 slave is left")));
}

}  // namespace
}  // namespace convoy
