// Replicas of the net, as their users see them: join, none, and slaves that die.

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "tests/programs/programs.hpp"
#include "tests/support/files.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Schemes : public Programs {
 protected:
  /// Trains on this machine alone, with more options.
  std::string train(const std::string& run, std::vector<std::string> more) const {
    more.insert(more.end(), {"--epochs", "1"});
    Process process = master(training(folder(run), more));
    EXPECT_EQ(process.wait(100s), kSuccess) << process.output();
    return process.output();
  }
  std::string weights_of(const std::string& run) const { return file_bytes(folder(run) + "/weights.safetensors"); }
};

TEST_F(Schemes, JoinGoesOnWhereItStoppedToTheBit) {
  EXPECT_THAT(train("whole", {"--sync", "join", "--replicas", "3"}), HasSubstr("batch 150, 1 epoch of 6000 images"));
  train("cut", {"--sync", "join", "--replicas", "3", "--steps", "11"});
  Process rest = master({"train", "--resume", folder("cut")});
  ASSERT_EQ(rest.wait(100s), kSuccess) << rest.output();
  EXPECT_EQ(weights_of("whole"), weights_of("cut"));
  Process other = master({"train", "--resume", folder("cut"), "--replicas", "2", "--epochs", "2"});
  EXPECT_EQ(other.wait(100s), kFailure);
  EXPECT_THAT(other.output(), HasSubstr("replicas was 3 and is now 2"));
}

/// With 5 local steps the moments are exchanged first after step 35, so that the run can end there.
TEST_F(Schemes, OneReplicaIsOneMachineToTheBit) {
  train("split", {"--steps", "35"});
  train("join", {"--steps", "35", "--sync", "join", "--replicas", "1"});
  EXPECT_THAT(train("none", {"--steps", "35", "--sync", "none", "--replicas", "1"}),
              HasSubstr("staleness of gradients: 0.00 updates in the mean, 0 at most"));
  train("local", {"--steps", "35", "--sync", "join", "--replicas", "1", "--sync-every", "5"});
  EXPECT_EQ(weights_of("split"), weights_of("join"));
  EXPECT_EQ(weights_of("split"), weights_of("local"));
  EXPECT_EQ(weights_of("split"), weights_of("none"));
}

TEST_F(Schemes, SayThatStaleGradientsActLikeMomentum) {
  const std::string advice = "give --set training.momentum=0.45 or less";
  const std::vector<std::string> two{"--steps", "2", "--sync", "none", "--replicas", "2"};
  EXPECT_THAT(train("much", two), HasSubstr(advice));
  std::vector<std::string> little = two;
  little.insert(little.end(), {"--set", "training.momentum=0.45"});
  EXPECT_THAT(train("little", little), Not(HasSubstr("momentum")));
  EXPECT_THAT(train("one", {"--steps", "2", "--sync", "none", "--replicas", "1"}), Not(HasSubstr(advice)));
}

/// The first exchange of moments is after step 43, because the rounds of four steps grow; only there is a model.
TEST_F(Schemes, LocalStepsGoOnWhereTheyStoppedToTheBit) {
  const std::vector<std::string> scheme{"--sync",       "join", "--replicas",       "2",  "--sync-every", "4",
                                        "--sync-up-to", "16",   "--outer-momentum", "0.5"};
  std::vector<std::string> some = scheme;
  some.insert(some.end(), {"--steps", "11"});
  train("whole", scheme);
  EXPECT_THAT(train("cut", some), HasSubstr("stopped after step 43 of 60"));
  Process rest = master({"train", "--resume", folder("cut"), "--steps", "60"});
  ASSERT_EQ(rest.wait(100s), kSuccess) << rest.output();
  EXPECT_EQ(weights_of("whole"), weights_of("cut"));
  Process other = master({"train", "--resume", folder("cut"), "--sync-every", "8", "--epochs", "2"});
  EXPECT_EQ(other.wait(100s), kFailure);
  EXPECT_THAT(other.output(), HasSubstr("sync-every was 4 and is now 8"));
  Process mean = master({"train", "--resume", folder("cut"), "--outer-momentum", "0", "--epochs", "2"});
  EXPECT_EQ(mean.wait(100s), kFailure);
  EXPECT_THAT(mean.output(), HasSubstr("outer-momentum was 0.5 and is now missing"));
}

TEST_F(Schemes, ADistributedServerIsOneMachineWithALargerBatch) {
  const std::vector<std::string> scheme{"--sync", "join", "--server", "distributed", "--replicas", "3"};
  EXPECT_THAT(train("join", scheme), HasSubstr("batch 150, 1 epoch of 6000 images"));
  std::vector<std::string> large = training(folder("large"), {"--epochs", "1"});
  std::ranges::replace(large, std::string("50"), std::string("150"));
  Process one = master(large);
  ASSERT_EQ(one.wait(100s), kSuccess) << one.output();
  EXPECT_EQ(weights_of("join"), weights_of("large"));
  std::vector<std::string> some = scheme;
  some.insert(some.end(), {"--steps", "11"});
  train("cut", some);
  Process rest = master({"train", "--resume", folder("cut")});
  ASSERT_EQ(rest.wait(100s), kSuccess) << rest.output();
  EXPECT_EQ(weights_of("join"), weights_of("cut"));
  Process other = master({"train", "--resume", folder("cut"), "--server", "central", "--epochs", "2"});
  EXPECT_EQ(other.wait(100s), kFailure);
  EXPECT_THAT(other.output(), HasSubstr("server was distributed and is now missing"));
}

/// The images of two replicas, shared by two slaves.
TEST_F(Schemes, ADistributedServerIsOnTheMembers) {
  Process a = slave("a");
  Process b = slave("b");
  Process train = master(training(folder("run"), {"--sync", "join", "--server", "distributed", "--layout", "samples",
                                                  "--slaves", "2", "--epochs", "1", "--steps", "10"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("batch 100"), HasSubstr("conv1 6/6 in"), HasSubstr("/100 samples")));
}

TEST_F(Schemes, TrainOnGroupsOfSlavesOfWhichOneDies) {
  const std::vector<std::string> local{"join", "--sync-every", "5"};
  const std::vector<std::string> in_turns{"join", "--semaphore", "--wire", "bf16"};
  for (const std::vector<std::string>& scheme : {std::vector<std::string>{"join"}, {"none"}, local, in_turns}) {
    Process a = slave("a");
    Process b = slave("b");
    Process doomed = slave("doomed");
    std::vector<std::string> options{"--replicas", "2", "--slaves", "3", "--epochs", "1", "--format", "json", "--sync"};
    options.insert(options.end(), scheme.begin(), scheme.end());
    Process train = master(training(folder(fmt::format("{}", fmt::join(scheme, ""))), options));
    ASSERT_TRUE(train.wait_for("\"step\":10,", 100s)) << train.output();
    doomed.signal(SIGKILL);
    ASSERT_EQ(train.wait(200s), kSuccess) << train.output();
    EXPECT_THAT(train.output(), AllOf(HasSubstr("replica 1 of 2: "), HasSubstr("replica 2 of 2: "),
                                      HasSubstr("slave doomed"), Not(HasSubstr("are done again"))));
    EXPECT_THAT(train.output(), HasSubstr("\"other_replicas\":["));
    EXPECT_THAT(train.output(), testing::ContainsRegex("\"states_sent\":[1-9]")) << "weights and gradients travel";
  }
}

/// The numbers of the last epoch that a run tells.
std::vector<double> results_of(const std::string& csv) {
  const std::vector<std::vector<std::string>> lines = fields_of(csv);
  std::vector<double> results;
  for (const char* name : {"train_loss", "train_accuracy", "test_accuracy"}) {
    const auto column = std::ranges::find(lines.at(0), name) - lines[0].begin();
    results.push_back(std::stod(lines.back().at(static_cast<std::size_t>(column))));
  }
  return results;
}

/// Each replica is a convoy of its own, in which the slaves share the filters. A slave dies, then the master, and the
/// run goes on with the six slaves that are left, as replicas of three. It trains as one machine does that computes all
/// batches.
TEST_F(Schemes, SevenSlavesAsTwoReplicasOutliveASlaveAndTheMaster) {
  std::vector<Process> slaves;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) slaves.push_back(slave(name));
  const auto arguments =
      training(folder("run"), {"--sync", "join", "--replicas", "2", "--layout", "filters", "--slaves", "7", "--epochs",
                               "1", "--format", "json", "--checkpoint-seconds", "0"});
  Process first = master(arguments);
  ASSERT_TRUE(first.wait_for("\"step\":10,", 100s)) << first.output();
  slaves[2].signal(SIGKILL);
  ASSERT_TRUE(first.wait_for("\"step\":20,", 100s)) << first.output();
  first.signal(SIGKILL);
  first.wait(100s);
  EXPECT_THAT(first.output(), AllOf(HasSubstr("replica 2 of 2: "), HasSubstr("slave c")));
  Process second = master({"train", "--resume", folder("run"), "--slaves", "6"});
  ASSERT_EQ(second.wait(200s), kSuccess) << second.output();
  EXPECT_THAT(second.output(), AllOf(HasSubstr("replica 2 of 2: "), HasSubstr("conv2"), Not(HasSubstr("samples"))));
  train("alone", {"--sync", "join", "--replicas", "2"});
  const std::vector<double> got = results_of(file_bytes(folder("run") + "/results.csv"));
  const std::vector<double> expected = results_of(file_bytes(folder("alone") + "/results.csv"));
  EXPECT_NEAR(got[0], expected[0], 0.02 * expected[0]);
  EXPECT_NEAR(got[1], expected[1], 0.01);
  EXPECT_NEAR(got[2], expected[2], 0.02);
}

}  // namespace
}  // namespace convoy
