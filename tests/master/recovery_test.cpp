// Tests runs whose slaves die, join and leave. No step may be lost, and the weights must be those of a run that changed
// its plan at the same steps without losing a slave.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/master/recovery_run.hpp"
#include "tests/support/fake_slave.hpp"
#include "tests/support/mortal_slaves.hpp"
#include "tests/support/slave_threads.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;

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
  DenseBy dense = DenseBy::master;
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
  const ClusterOptions three{.slaves = 3, .shares = "3,2,2", .exchange = death.exchange, .dense = death.dense};
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
  TrainingRun run({.slaves = 2, .plan = file, .dense = DenseBy::automatic});
  const SlaveThreads others(run.endpoint(), 2, {"eigen"});
  const Result undisturbed = run.train(kSteps, kNever, stayed > 0 ? &before : nullptr);
  EXPECT_EQ(disturbed.progress, undisturbed.progress);
  expect_equal(disturbed.model, undisturbed.model);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Deaths,
    testing::Values(Death{"InAStepOfAStar", "star", "Step", 7, kEachStep, 1, 7},
                    Death{"InAStepOfARing", "ring", "Step", 7, kEachStep, 1, 7},
                    Death{"InASnapshot", "star", "Snapshot", 4, kEachStep, 1, 11},
                    Death{"LongAfterTheLastSnapshot", "ring", "Step", 7, kNever, 0, 0},
                    Death{"BeforeTheFirstStep", "star", "Load", 0, kNever, 0, 0},
                    Death{"SharingADenseLayerInAStar", "star", "Step", 7, kEachStep, 1, 7, DenseBy::members},
                    Death{"SharingADenseLayerInARing", "ring", "Step", 7, kEachStep, 1, 7, DenseBy::members},
                    Death{"SharingADenseLayerInASnapshot", "ring", "Snapshot", 4, kEachStep, 1, 11, DenseBy::members}),
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

TEST(Losses, OfAllThatShareADenseLayerLeaveTheMasterToGoOnAlone) {
  TrainingRun run({.slaves = 2, .exchange = "ring", .dense = DenseBy::members});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "p", "Step", 3);
  mortal.add(run.endpoint(), "q", "Step", 4);
  const Result result = run.train(kSteps, kEachStep);
  EXPECT_EQ(result.plan.members, (std::vector<std::string>{"master"}));
  EXPECT_GT(result.plan.stages.size(), result.model.trunk.size()) << "the form of the net stays";
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
