// Searches as their users see them: killed, interrupted, resumed.

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Searches : public Programs {
 protected:
  /// A search of six small nets. With the largest rates training diverges.
  std::string space(const std::string& fields = "", const std::string& range = "{log: [0.001, 100000]}") const {
    const std::string file = folder("space.yaml");
    std::ofstream(file) << "net: " << kSource << "/nets/glyphs.yaml\nmethod: random\nseed: 3\n"
                        << (fields.empty() ? "trials: 6\nrungs: {first: 1500, factor: 2}\n" : fields)
                        << "parameters:\n  training.learning_rate: " << range
                        << "\n  conv1.filters: {integer: [2, 6]}\n";
    return file;
  }
  std::vector<std::string> search(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"search",
                                       space(),
                                       "--set",
                                       "conv2.filters=6",
                                       "--threads",
                                       "1",
                                       "--out",
                                       folder(out),
                                       "--epochs",
                                       "1",
                                       "--set",
                                       "dense1.units=16",
                                       "--checkpoint-seconds",
                                       "0.1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string file(const std::string& name) const { return file_bytes(folder(name)); }
  /// The lines of trials.jsonl, without what a clock told.
  std::vector<std::string> results(const std::string& out) const {
    std::istringstream lines(file(out + "/trials.jsonl"));
    std::vector<std::string> results;
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::ordered_json::parse(line);
      json.erase("seconds");
      results.push_back(json.dump());
    }
    return results;
  }
  std::size_t lines(const std::string& out) const {
    const std::string text = file(out + "/trials.jsonl");
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }
  /// Kills the master while it trains, when it has finished so many rungs and has written checkpoints of the next.
  void kill_after(Process& process, const std::string& out, std::size_t rungs) const {
    for (int i = 0; i < 6000 && process.running() && lines(out) < rungs; ++i) std::this_thread::sleep_for(10ms);
    ASSERT_GE(lines(out), rungs) << process.output();
    std::this_thread::sleep_for(60ms);
    process.signal(SIGKILL);
    EXPECT_EQ(process.wait(20s), 128 + SIGKILL) << process.output();
  }
};

TEST_F(Searches, GoOnAfterAKillAsIfUndisturbed) {
  Process whole = master(search("whole"));
  ASSERT_EQ(whole.wait(200s), kSuccess) << whole.output();
  EXPECT_THAT(whole.output(), AllOf(HasSubstr("rungs: 1500, 3000, 6000 images"), HasSubstr("the best so far"),
                                    HasSubstr("diverged"), HasSubstr("train with the best setting: ")));
  Process first = master(search("killed"));
  kill_after(first, "killed", 2);
  // A line that the master was about to write.
  std::ofstream(folder("killed") + "/trials.jsonl", std::ios::app) << R"({"trial":4,"rung)";
  Process second = master({"search", "--resume", folder("killed")});
  kill_after(second, "killed", 5);
  Process third = master({"search", "--resume", folder("killed")});
  ASSERT_EQ(third.wait(200s), kSuccess) << third.output();
  EXPECT_THAT(third.output(), HasSubstr("resuming after"));
  EXPECT_EQ(results("killed"), results("whole"));
  EXPECT_GE(results("whole").size(), 9U);
  EXPECT_THAT(file("whole/trials.jsonl"),
              AllOf(HasSubstr(R"("outcome":"diverged","accuracy":null)"), Not(HasSubstr("NaN"))));
  EXPECT_EQ(file("killed/best.yaml").substr(file("killed/best.yaml").find('\n')),
            file("whole/best.yaml").substr(file("whole/best.yaml").find('\n')));
  EXPECT_THAT(file("whole/trials.csv"), HasSubstr("training.learning_rate,conv1.filters\n1,1,1500,"));
  // A search that has ended has nothing left to do; with more trials it goes on.
  Process more = master({"search", "--resume", folder("killed"), "--trials", "7", "--format", "json"});
  ASSERT_EQ(more.wait(100s), kSuccess) << more.output();
  EXPECT_THAT(more.output(), AllOf(HasSubstr(R"({"event":"rung","trial":7,"rung":1)"),
                                   HasSubstr(R"({"event":"end","how":"finished")"), Not(HasSubstr(R"("trial":8)"))));
}

/// A rung is what `train` does with the same values, to the bit; and a trial is a run that `train` can go on with.
TEST_F(Searches, TrainAsTrainDoes) {
  const std::string fields = "trials: 1\nrungs: {first: 600, last: 1000}\n";
  std::vector<std::string> arguments = search("run");
  space(fields, "{log: [0.01, 0.1]}");
  Process process = master(arguments);
  ASSERT_EQ(process.wait(100s), kSuccess) << process.output();
  Process train = master(
      {"train", folder("run/best.yaml"), "--seed", "3", "--steps", "12", "--threads", "1", "--out", folder("again")});
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  EXPECT_EQ(file("again/weights.safetensors"), file("run/trials/0001/weights.safetensors"));
  Process further = master({"train", "--resume", folder("run/trials/0001"), "--steps", "13"});
  ASSERT_EQ(further.wait(60s), kSuccess) << further.output();
  EXPECT_THAT(further.output(), HasSubstr("resuming after step 12"));
  // The search has lost the checkpoint of the rung, and says so before it compares another.
  std::ofstream(folder("run") + "/trials.jsonl", std::ios::trunc);
  Process lost = master({"search", "--resume", folder("run")});
  EXPECT_EQ(lost.wait(60s), kFailure);
  EXPECT_THAT(lost.output(),
              AllOf(HasSubstr("trials/0001: the checkpoint is that of step 13"), HasSubstr("move this folder away")));
  std::filesystem::remove_all(folder("run/trials/0001"));
  Process anew = master({"search", "--resume", folder("run")});
  EXPECT_EQ(anew.wait(60s), kSuccess) << anew.output();
  EXPECT_EQ(lines("run"), 1U);
}

TEST_F(Searches, EndCleanlyWithTheCommandThatGoesOn) {
  Process process = master(search("run"));
  ASSERT_TRUE(process.wait_for("trial 1", 100s)) << process.output();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(60s), kInterrupted) << process.output();
  EXPECT_THAT(process.output(),
              AllOf(HasSubstr("the search was interrupted"), HasSubstr(" search --resume " + folder("run"))));
  const std::size_t before = lines("run");
  Process other = master(search("run"));
  EXPECT_EQ(other.wait(30s), kFailure);
  EXPECT_THAT(other.output(), HasSubstr("already holds a search; give --resume"));
  Process changed = master({"search", "--resume", folder("run"), "--seed", "4"});
  EXPECT_EQ(changed.wait(30s), kUsage);
  EXPECT_THAT(changed.output(), HasSubstr("--seed cannot be combined with --resume"));
  // No rung begins when the hours are used up, and the results stay.
  Process late = master({"search", "--resume", folder("run"), "--hours", "0.000001"});
  EXPECT_EQ(late.wait(60s), kSuccess) << late.output();
  EXPECT_EQ(lines("run"), before);
}

TEST_F(Searches, TrainOverSlaves) {
  Process a = slave("a");
  std::vector<std::string> arguments =
      search("run", {"--slaves", "1", "--shares", "1", "--listen", endpoint_, "--insecure", "--trials", "2"});
  space("rungs: {first: 600, factor: 2, last: 1200}\ntrials: 2\n", "{choice: [0.01, 0.02]}");
  Process process{[&] {
    arguments.insert(arguments.begin(), kMaster);
    return arguments;
  }()};
  ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
  EXPECT_EQ(lines("run"), 3U) << process.output();
}

TEST_F(Searches, RefuseWhatNoTrialCouldTrain) {
  const auto output_of = [&](const std::string& range, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = search("run", std::move(more));
    space("trials: 2\nrungs: {first: 600, last: 2000}\n", range);
    Process process = master(arguments);
    EXPECT_EQ(process.wait(30s), kFailure) << process.output();
    EXPECT_FALSE(std::filesystem::exists(folder("run")));
    return process.output();
  };
  EXPECT_THAT(output_of("{linear: [-1, 1]}"),
              AllOf(HasSubstr("space.yaml:7: parameters training.learning_rate"), HasSubstr("the value -1")));
  EXPECT_THAT(output_of("{log: [0.1, 1]}", {"--set", "training.patience=2"}), HasSubstr("training.patience=0"));
  EXPECT_THAT(output_of("{log: [0.1, 1]}", {"--device", "paced:9"}), HasSubstr("computes nothing"));
  EXPECT_THAT(output_of("{log: [0.1, 1]}", {"--data", folder("none")}), HasSubstr("none"));
  EXPECT_THAT(output_of("{log: [0.1, 1]}", {"--batch", "7000"}), HasSubstr("7000"));
  Process none = master({"search", "--resume", folder("none")});
  EXPECT_EQ(none.wait(30s), kFailure);
  EXPECT_THAT(none.output(), AllOf(HasSubstr("there is no search to resume"), HasSubstr("none/space.yaml")));
  Process missing = master({"search"});
  EXPECT_EQ(missing.wait(30s), kUsage);
  EXPECT_THAT(missing.output(), HasSubstr("search needs SPACE"));
}

}  // namespace
}  // namespace convoy
