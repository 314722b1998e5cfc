// Runs whose folder is deleted, full or not writable.

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class LostFiles : public Programs {
 protected:
  std::string weights(const std::string& run) const { return file_bytes(folder(run) + "/weights.safetensors"); }

  /// A run that is disturbed in its first epoch and ends after the second.
  Process run_of_two_epochs() const {
    return master(training(folder("run"), {"--epochs", "2", "--format", "json", "--checkpoint-seconds", "1e6"}));
  }

  /// Deletes the run folder, in which the run may make a file at the same moment.
  void remove_folder() const {
    std::error_code error;
    for (int i = 0; i < 100; ++i) {
      fs::remove_all(folder("run"), error);
      if (!fs::exists(folder("run"))) return;
    }
    FAIL() << "the folder is still there: " << error.message();
  }

  void expect_the_weights_of_an_undisturbed_run() const {
    Process whole = master(training(folder("whole"), {"--epochs", "2"}));
    ASSERT_EQ(whole.wait(200s), kSuccess) << whole.output();
    EXPECT_EQ(weights("run"), weights("whole"));
  }
};

TEST_F(LostFiles, OfARunWhoseFolderIsDeletedAreMadeAnew) {
  Process train = run_of_two_epochs();
  ASSERT_TRUE(train.wait_for("\"step\":10,", 100s)) << train.output();
  ASSERT_NO_FATAL_FAILURE(remove_folder());
  ASSERT_EQ(train.wait(200s), kSuccess) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("the run folder was gone and has been made anew"));
  expect_the_weights_of_an_undisturbed_run();
  EXPECT_THAT(file_bytes(folder("run") + "/events.jsonl"), HasSubstr("\"event\":\"end\""));
  EXPECT_THAT(file_bytes(folder("run") + "/results.csv"), HasSubstr("epoch,step,"));
  Process again = master({"train", "--resume", folder("run"), "--epochs", "3", "--steps", "250"});
  EXPECT_EQ(again.wait(100s), kSuccess) << again.output();
}

/// A file blocks the folder's name, because root may write files in spite of permissions.
TEST_F(LostFiles, WaitAtTheEndUntilTheyCanBeWritten) {
  Process train = run_of_two_epochs();
  ASSERT_TRUE(train.wait_for("\"step\":10,", 100s)) << train.output();
  ASSERT_NO_FATAL_FAILURE(remove_folder());
  std::ofstream(folder("run")) << "in the way";
  ASSERT_TRUE(train.wait_for("are still in memory", 200s)) << train.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("training goes on"), HasSubstr("the weights of step 240"),
                                    HasSubstr("Ctrl-C ends the wait")));
  EXPECT_TRUE(train.running());
  fs::remove(folder("run"));
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  expect_the_weights_of_an_undisturbed_run();
}

/// A job waits as a run does, and its user hears why.
TEST_F(LostFiles, OfAJobAreWaitedFor) {
  std::ofstream(folder("jobs.yaml")) << "{net: " << kSource
                                     << "/nets/glyphs.yaml, epochs: 1, jobs: [{name: run, set: {conv1.filters: 6, "
                                        "conv2.filters: 9, training.batch: 50}}]}";
  Process jobs = master({"jobs", folder("jobs.yaml"), "--threads", "1", "--out", folder("out"), "--format", "json",
                         "--checkpoint-seconds", "1e6"});
  ASSERT_TRUE(jobs.wait_for("\"event\":\"begin\"", 100s)) << jobs.output();
  const std::string run = folder("out/run");
  for (int i = 0; i < 6000 && jobs.running(); ++i) {
    if (file_bytes(run + "/events.jsonl").find("\"step\":3,") != std::string::npos) break;
    std::this_thread::sleep_for(10ms);
  }
  std::error_code error;
  for (int i = 0; i < 100 && fs::exists(run); ++i) fs::remove_all(run, error);
  std::ofstream(run) << "in the way";
  ASSERT_TRUE(jobs.wait_for("are still in memory", 100s)) << jobs.output();
  EXPECT_TRUE(jobs.running());
  fs::remove(run);
  ASSERT_EQ(jobs.wait(60s), kSuccess) << jobs.output();
  EXPECT_FALSE(file_bytes(run + "/weights.safetensors").empty());
}

TEST_F(LostFiles, OfAJobThatAreDamagedAreTold) {
  std::ofstream(folder("jobs.yaml")) << "{net: " << kSource
                                     << "/nets/glyphs.yaml, epochs: 1, jobs: [{name: run, set: {conv1.filters: 3, "
                                        "conv2.filters: 3, training.batch: 200}}]}";
  Process jobs = master({"jobs", folder("jobs.yaml"), "--threads", "1", "--out", folder("out")});
  ASSERT_EQ(jobs.wait(100s), kSuccess) << jobs.output();
  const std::string weights = file_bytes(folder("out/run/weights.safetensors"));
  std::ofstream(folder("out/run/checkpoint.safetensors")) << "damaged";
  fs::remove(folder("out/jobs.jsonl"));
  Process again = master({"jobs", "--resume", folder("out")});
  ASSERT_EQ(again.wait(100s), kSuccess) << again.output();
  EXPECT_THAT(again.output(), HasSubstr("checkpoint-damaged-1.safetensors"));
  EXPECT_EQ(file_bytes(folder("out/run/weights.safetensors")), weights);
}

TEST_F(LostFiles, AreGivenUpAtCtrlC) {
  Process train = run_of_two_epochs();
  ASSERT_TRUE(train.wait_for("\"step\":10,", 100s)) << train.output();
  ASSERT_NO_FATAL_FAILURE(remove_folder());
  std::ofstream(folder("run")) << "in the way";
  ASSERT_TRUE(train.wait_for("are still in memory", 200s)) << train.output();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(20s), kFailure) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("the steps since the last checkpoint are lost"));
}

}  // namespace
}  // namespace convoy
