// Replicas of the net, as their users see them: join, none, and slaves that die.

#include <gmock/gmock.h>

#include <csignal>
#include <thread>

#include "tests/programs/programs.hpp"

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

TEST_F(Schemes, OneReplicaIsOneMachineToTheBit) {
  train("split", {"--steps", "20"});
  train("join", {"--steps", "20", "--sync", "join", "--replicas", "1"});
  EXPECT_THAT(train("none", {"--steps", "20", "--sync", "none", "--replicas", "1"}),
              HasSubstr("staleness of gradients: 0.00 updates in the mean, 0 at most"));
  EXPECT_EQ(weights_of("split"), weights_of("join"));
  EXPECT_EQ(weights_of("split"), weights_of("none"));
}

TEST_F(Schemes, TrainOnGroupsOfSlavesOfWhichOneDies) {
  for (const std::string sync : {"join", "none"}) {
    Process a = slave("a");
    Process b = slave("b");
    Process doomed = slave("doomed");
    Process train = master(training(
        folder(sync), {"--sync", sync, "--replicas", "2", "--slaves", "3", "--epochs", "3", "--format", "json"}));
    ASSERT_TRUE(train.wait_for("\"step\":10,", 100s)) << train.output();
    doomed.signal(SIGKILL);
    ASSERT_EQ(train.wait(200s), kSuccess) << train.output();
    EXPECT_THAT(train.output(), AllOf(HasSubstr("replica 1 of 2: "), HasSubstr("replica 2 of 2: "),
                                      HasSubstr("slave doomed"), Not(HasSubstr("are done again"))));
    EXPECT_THAT(train.output(), HasSubstr("\"other_replicas\":["));
  }
}

}  // namespace
}  // namespace convoy
