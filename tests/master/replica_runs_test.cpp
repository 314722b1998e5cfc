// Runs of replicas on slaves that die, leave and join: no step is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/master/replica_run.hpp"
#include "tests/support/mortal_slaves.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/states.hpp"

namespace convoy {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// For nets with ReLUs, which another rounding may turn on or off. A step too many or too few changes the velocities by
/// more.
void expect_close_in_norm(const ModelState& a, const ModelState& b) {
  ASSERT_EQ(a.trunk.size(), b.trunk.size());
  for (std::size_t s = 0; s < a.trunk.size(); ++s) expect_near_in_norm(a.trunk[s], b.trunk[s], 0.05);
}

constexpr long kRunSteps = 12;

/// Two batches a step on this machine.
ReplicaResult alone() { return ReplicaRun(0, 2).train(kRunSteps); }

TEST(ReplicaRuns, GroupTheSlavesAndTrain) {
  ReplicaRun run(3, 2);
  const SlaveThreads slaves(run.endpoint(), 3, {"eigen"});
  const ReplicaResult result = run.train(kRunSteps);
  EXPECT_THAT(result.notices, Contains(HasSubstr("replica 1 of 2: ")));
  EXPECT_THAT(result.notices, Contains(HasSubstr("replica 2 of 2: ")));
  const ReplicaResult expected = alone();
  EXPECT_EQ(result.progress.batch, expected.progress.batch);
  expect_close_in_norm(result.model, expected.model);
}

TEST(ReplicaRuns, LoseNoStepWithASlave) {
  ReplicaRun run(4, 2);
  const SlaveThreads others(run.endpoint(), 3, {"eigen"});
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "mortal", "Step", 7);
  const ReplicaResult result = run.train(kRunSteps);
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
  const ReplicaResult result = run.train(kRunSteps);
  EXPECT_THAT(result.notices, Contains(HasSubstr("slave mortal")));
  expect_close_in_norm(result.model, alone().model);
}

/// While its gradients travel, a slave dies; later the other, too.
TEST(ReplicaRuns, GoOnAloneWithoutAnySlave) {
  ReplicaRun run(2, 2);
  MortalSlaves mortal;
  mortal.add(run.endpoint(), "p", "Snapshot", 5);
  mortal.add(run.endpoint(), "q", "Load", 11);
  const ReplicaResult result = run.train(kRunSteps);
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
  const ReplicaResult result = run.train(1000000);
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
