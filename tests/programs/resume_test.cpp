// How runs stop, go on, and are tested, as their users see it.

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Runs : public Programs {
 protected:
  std::string weights(const std::string& run) const { return file_bytes(folder(run) + "/weights.safetensors"); }
};

/// The folder alone is enough: its config.yaml has the net, the data, the seed and the slaves.
TEST_F(Runs, GoOnFromTheirFolderAlone) {
  const std::vector<std::string> options{"--epochs", "1", "--seed", "7", "--slaves", "1", "--shares", "1"};
  Process a = slave("a");
  Process whole = master(training(folder("whole"), options));
  ASSERT_EQ(whole.wait(100s), kSuccess) << whole.output();
  std::vector<std::string> some = options;
  some.insert(some.end(), {"--steps", "30", "--format", "json"});
  Process cut = master(training(folder("cut"), some));
  ASSERT_EQ(cut.wait(100s), kSuccess) << cut.output();
  EXPECT_THAT(cut.output(),
              AllOf(HasSubstr(R"("how":"stopped","step":30,"steps":120)"), HasSubstr("stopped after step 30 of 120"),
                    HasSubstr(" train --resume " + folder("cut") + "\"")));
  Process rest = master({"train", "--resume", folder("cut")});
  ASSERT_EQ(rest.wait(100s), kSuccess) << rest.output();
  EXPECT_THAT(rest.output(), AllOf(HasSubstr("resuming after step 30"), HasSubstr("finished in")));
  EXPECT_EQ(weights("whole"), weights("cut"));
  // Without slaves, their options in config.yaml do not matter.
  Process alone = master({"train", "--resume", folder("cut"), "--slaves", "0"});
  EXPECT_EQ(alone.wait(100s), kSuccess) << alone.output();
}

TEST_F(Runs, KeepTheirOptionsUntilTheyGoOnWithOthers) {
  Process train = master(training(folder("run"), {"--steps", "2"}));
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  const auto config = [&] { return file_bytes(folder("run") + "/config.yaml"); };
  const std::string before = config();
  const std::vector<std::string> resume{"train", "--resume",   folder("run"), "--slaves",
                                        "2",     "--insecure", "--listen",    endpoint_};
  std::vector<std::string> impossible = resume;
  impossible.insert(impossible.end(), {"--micro-batch", "7"});
  Process refused = master(impossible);
  EXPECT_EQ(refused.wait(60s), kFailure);
  EXPECT_THAT(refused.output(), HasSubstr("--micro-batch 7"));
  EXPECT_EQ(config(), before);
  Process waiting = master(resume);
  ASSERT_TRUE(waiting.wait_for("waiting for 2 slaves", 60s)) << waiting.output();
  waiting.signal(SIGINT);
  EXPECT_EQ(waiting.wait(60s), kInterrupted) << waiting.output();
  EXPECT_EQ(config(), before);
  Process rest = master({"train", "--resume", folder("run"), "--steps", "4", "--checkpoint-seconds", "9"});
  EXPECT_EQ(rest.wait(60s), kSuccess) << rest.output();
  EXPECT_THAT(config(), HasSubstr("checkpoint-seconds: \"9\""));
}

TEST_F(Runs, SayWhatTheyWereStartedWithInstead) {
  Process train = master(training(folder("run"), {"--steps", "2"}));
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("stopped after step 2 of"), Not(HasSubstr("interrupted"))));
  Process other =
      master(training(folder("run"), {"--resume", "--seed", "2", "--set", "conv1.kernel=3", "--epochs", "2"}));
  EXPECT_EQ(other.wait(30s), kFailure);
  EXPECT_THAT(other.output(),
              AllOf(HasSubstr("seed was 1 and is now 2"), HasSubstr("conv1.kernel was [5, 5] and is now [3, 3]"),
                    Not(HasSubstr("epochs")), HasSubstr("train --resume " + folder("run"))));
  Process none = master({"train", "--resume", folder("nothing")});
  EXPECT_EQ(none.wait(30s), kFailure);
  EXPECT_THAT(none.output(), AllOf(HasSubstr("there is no run to resume"), HasSubstr("nothing/config.yaml")));
}

/// Weights that cannot be trained on to the same bits are not overwritten by a run that begins anew.
TEST_F(Runs, AreNotBegunAnewOverTheirWeights) {
  Process train = master(training(folder("run"), {"--steps", "2"}));
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  const std::string before = weights("run");
  const auto expect_refusal = [&](const std::vector<std::string>& arguments, const std::string& text) {
    Process refused = master(arguments);
    EXPECT_EQ(refused.wait(30s), kFailure);
    EXPECT_THAT(refused.output(), HasSubstr(text));
    EXPECT_EQ(weights("run"), before);
  };
  const std::vector<std::string> resume{"train", "--resume", folder("run")};
  const std::string way_on =
      "train " + folder("run") + "/config.yaml --weights " + folder("run") + "/weights.safetensors";
  std::filesystem::resize_file(folder("run") + "/checkpoint.safetensors", 100);
  std::filesystem::remove(folder("run") + "/checkpoint-previous.safetensors");
  expect_refusal(resume, way_on);
  std::filesystem::remove(folder("run") + "/checkpoint.safetensors");
  expect_refusal(resume, "the checkpoints of this run are gone");
  expect_refusal(resume, way_on);
  expect_refusal({"train", "--resume", folder("run"), "--out", folder("other")}, "a run goes on in its own folder");
}

TEST_F(Runs, EndWhenTheirPatienceDoesAndKeepTheBestEpoch) {
  // Weights that hardly change: no epoch is better than the first.
  const std::vector<std::string> options{
      "--epochs", "9", "--set", "training.patience=2", "--set", "training.learning_rate=1e-12"};
  std::vector<std::string> some = options;
  some.insert(some.end(), {"--steps", "240"});
  Process first = master(training(folder("run"), some));
  ASSERT_EQ(first.wait(100s), kSuccess) << first.output();
  const std::string best = file_bytes(folder("run") + "/best.safetensors");
  EXPECT_THAT(best.substr(0, 1000), HasSubstr(R"("epoch":"1")"));
  Process rest = master({"train", "--resume", folder("run")});
  ASSERT_EQ(rest.wait(100s), kSuccess) << rest.output();
  EXPECT_THAT(rest.output(), AllOf(HasSubstr("epoch 3/9"), HasSubstr("stopped after epoch 3"),
                                   HasSubstr("training.patience"), Not(HasSubstr("epoch 4/9"))));
  EXPECT_EQ(file_bytes(folder("run") + "/best.safetensors"), best);
  Process over = master({"train", "--resume", folder("run")});
  ASSERT_EQ(over.wait(100s), kSuccess) << over.output();
  EXPECT_THAT(over.output(), Not(HasSubstr("epoch 4/9")));
  Process test = master({"test", folder("run") + "/config.yaml", "--weights", folder("run") + "/best.safetensors"});
  EXPECT_EQ(test.wait(60s), kSuccess) << test.output();
}

TEST_F(Runs, StartFromWeightsWithAnotherLastLayer) {
  Process train = master(training(folder("run"), {"--steps", "2"}));
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  const std::string file = folder("run") + "/weights.safetensors";
  const std::vector<std::string> other{"--steps", "1", "--weights", file, "--set", "dense1.units=30"};
  Process refused = master(training(folder("refused"), other));
  EXPECT_EQ(refused.wait(30s), kFailure) << refused.output();
  EXPECT_THAT(refused.output(), HasSubstr("--except"));
  std::vector<std::string> except = other;
  except.insert(except.end(), {"--except", "dense1", "--except", "dense2"});
  Process taken = master(training(folder("taken"), except));
  EXPECT_EQ(taken.wait(60s), kSuccess) << taken.output();
}

TEST_F(Runs, AreTestedClassByClassOnTheirOwnData) {
  Process train = master(training(folder("run"), {"--epochs", "1", "--seed", "3"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  const std::vector<std::string> command{"test", folder("run") + "/config.yaml", "--weights",
                                         folder("run") + "/weights.safetensors"};
  Process text = master(command);
  ASSERT_EQ(text.wait(60s), kSuccess) << text.output();
  EXPECT_THAT(text.output(), AllOf(HasSubstr("on the 1000 test images of glyphs, which Convoy draws itself"),
                                   HasSubstr("most often taken for"), HasSubstr("confusion matrix")));
  std::vector<std::string> in_json = command;
  in_json.insert(in_json.end(), {"--format", "json"});
  Process json = master(in_json);
  ASSERT_EQ(json.wait(60s), kSuccess) << json.output();
  EXPECT_THAT(json.output(), AllOf(HasSubstr(R"("data":"glyphs")"), HasSubstr(R"("confusion":[[)")));
  // The glyphs are those of the run's seed, so that the accuracy is the one of its last epoch.
  const std::string results = file_bytes(folder("run") + "/results.csv");
  std::istringstream row(results.substr(results.find('\n') + 1));
  std::string cell;
  for (int i = 0; i < 6; ++i) std::getline(row, cell, ',');
  const std::string output = json.output();
  EXPECT_NEAR(std::stod(output.substr(output.find("\"accuracy\":") + 11)), std::stod(cell), 1e-6);
}

TEST_F(Runs, TestsEndAtTheFirstCtrlC) {
  Process train = master(training(folder("run"), {"--steps", "1"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  Process test = master({"test", folder("run") + "/config.yaml", "--weights", folder("run") + "/weights.safetensors",
                         "--batch", "1", "--device", "reference", "--threads", "1"});
  ASSERT_TRUE(test.wait_for("tested ", 30s)) << test.output();
  test.signal(SIGINT);
  EXPECT_EQ(test.wait(20s), kInterrupted) << test.output();
  EXPECT_THAT(test.output(), HasSubstr("interrupted; "));
}

}  // namespace
}  // namespace convoy
