// Searches that train several trials at once, as their users see them: over slaves that are killed, with a master that
// is killed. Whatever happens, the trials are those of an undisturbed search.

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/programs/newest_by_machine.hpp"
#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Json = nlohmann::ordered_json;

class SearchesAtOnce : public Programs {
 protected:
  /// A search of small nets. With the largest rates training diverges.
  std::string space(const std::string& fields = "trials: 6\nrungs: {first: 1000, factor: 2, last: 4000}\n") const {
    const std::string file = folder("space.yaml");
    std::ofstream(file) << "net: " << kSource << "/nets/glyphs.yaml\nmethod: random\nseed: 3\n"
                        << fields << "parameters:\n  training.learning_rate: {log: [0.001, 100000]}\n"
                        << "  conv1.filters: {integer: [2, 6]}\n";
    return file;
  }
  std::vector<std::string> search(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{
        "search", space(), "--set",     "conv2.filters=6", "--set", "dense1.units=16",      "--batch",
        "50",     "--out", folder(out), "--epochs",        "1",     "--checkpoint-seconds", "0.1"};
    const auto given = [&](const char* option) { return std::ranges::find(more, option) != more.end(); };
    if (!given("--threads")) arguments.insert(arguments.end(), {"--threads", "1"});
    if (given("--slaves")) arguments.insert(arguments.end(), {"--listen", endpoint_, "--insecure"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string file(const std::string& name) const { return file_bytes(folder(name)); }
  std::vector<Json> lines(const std::string& out) const {
    std::istringstream text(file(out + "/trials.jsonl"));
    std::vector<Json> found;
    for (std::string line; std::getline(text, line);) found.push_back(Json::parse(line));
    return found;
  }
  /// The lines of trials.jsonl, without what machines and clocks told.
  std::vector<std::string> results(const std::string& out) const {
    std::vector<std::string> results;
    for (Json line : lines(out)) {
      line.erase("seconds");
      line.erase("machine");
      results.push_back(line.dump());
    }
    return results;
  }
  std::set<std::string> machines(const std::string& out) const {
    std::set<std::string> names;
    for (const Json& each : lines(out)) names.insert(each.value("machine", ""));
    return names;
  }
  void expect_equal(const std::string& out, const std::string& expected) const {
    EXPECT_EQ(results(out), results(expected));
    std::set<int> trials;
    for (const Json& line : lines(expected)) trials.insert(line["trial"].get<int>());
    // A trial that diverged leaves its last checkpoint, which a clock decides on.
    for (const Json& line : lines(expected)) {
      if (line["outcome"] != "finished") trials.erase(line["trial"].get<int>());
    }
    EXPECT_GE(trials.size(), 3U);
    for (const int trial : trials) {
      const std::string weights = fmt::format("/trials/{:04}/weights.safetensors", trial);
      EXPECT_TRUE(file(out + weights) == file(expected + weights)) << trial;
    }
  }
  /// Waits until a slave has trained some steps of a rung, and returns its name.
  std::string await_slave(Process& process, const std::string& out) const {
    for (int i = 0; i < 6000 && process.running(); ++i) {
      for (const auto& [machine, rung] : newest_by_machine(process.output(), "place", "rung")) {
        const int trial = std::stoi(rung.substr(std::string("trial ").size()));
        const std::string seen = file(fmt::format("{}/trials/{:04}/events.jsonl", out, trial));
        if (machine.starts_with("slave") && seen.find(R"("event":"step")") != std::string::npos) return machine;
      }
      std::this_thread::sleep_for(10ms);
    }
    return "";
  }
  void kill_after(Process& process, const std::string& out, std::size_t rungs) const {
    for (int i = 0; i < 6000 && process.running() && lines(out).size() < rungs; ++i) std::this_thread::sleep_for(10ms);
    ASSERT_GE(lines(out).size(), rungs) << process.output();
    std::this_thread::sleep_for(60ms);
    process.signal(SIGKILL);
    EXPECT_EQ(process.wait(20s), 128 + SIGKILL) << process.output();
  }
};

TEST_F(SearchesAtOnce, HaveTheSameTrialsWhateverHappens) {
  // Undisturbed, with one trial after another on this machine, which looks back as far as with three at a time.
  Process whole = master(search("whole", {"--at-once", "3"}));
  ASSERT_EQ(whole.wait(200s), kSuccess) << whole.output();
  EXPECT_THAT(whole.output(), AllOf(HasSubstr("3 trials at once"), HasSubstr("diverged"), HasSubstr("on master"),
                                    HasSubstr("train with the best setting: ")));
  EXPECT_GE(results("whole").size(), 8U);
  {
    // A slave is killed.
    Process first = slave("slave-1");
    Process second = slave("slave-2");
    Process process =
        master(search("slaves", {"--at-once", "3", "--slaves", "2", "--master-jobs", "0", "--format", "json"}));
    const std::string victim = await_slave(process, "slaves");
    ASSERT_NE(victim, "") << process.output();
    (victim == "slave-1" ? first : second).signal(SIGKILL);
    ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
    EXPECT_THAT(process.output(), AllOf(HasSubstr(R"("event":"lost")"), HasSubstr(R"("machine":")" + victim)));
    EXPECT_THAT(machines("slaves"), Not(testing::Contains("master")));
    expect_equal("slaves", "whole");
  }
  // The master is killed twice, and goes on with fewer machines.
  Process killed = master(search("killed", {"--at-once", "3", "--master-jobs", "2", "--threads", "2"}));
  kill_after(killed, "killed", 2);
  std::filesystem::remove(folder("space.yaml"));
  Process again = master({"search", "--resume", folder("killed")});
  kill_after(again, "killed", 5);
  Process last = master({"search", "--resume", folder("killed"), "--master-jobs", "1", "--threads", "1"});
  ASSERT_EQ(last.wait(200s), kSuccess) << last.output();
  EXPECT_THAT(last.output(), HasSubstr("resuming after"));
  EXPECT_THAT(machines("killed"),
              AllOf(testing::Contains(testing::StartsWith("master-")), testing::Contains("master")));
  expect_equal("killed", "whole");
}

TEST_F(SearchesAtOnce, EndCleanlyWithTheCommandThatGoesOn) {
  Process process = master(search("run", {"--at-once", "2", "--master-jobs", "2", "--threads", "2"}));
  ASSERT_TRUE(process.wait_for("trial 1", 100s)) << process.output();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(60s), kInterrupted) << process.output();
  EXPECT_THAT(process.output(),
              AllOf(HasSubstr("the search was interrupted"), HasSubstr(" search --resume " + folder("run"))));
  Process changed = master({"search", "--resume", folder("run"), "--at-once", "4"});
  EXPECT_EQ(changed.wait(30s), kUsage);
  EXPECT_THAT(changed.output(), HasSubstr("--at-once cannot be combined with --resume"));
  Process late = master({"search", "--resume", folder("run"), "--hours", "0.000001"});
  EXPECT_EQ(late.wait(60s), kSuccess) << late.output();
}

TEST_F(SearchesAtOnce, RefuseOptionsOfSharedTrials) {
  const auto output_of = [&](std::vector<std::string> more) {
    Process process = master(search("run", std::move(more)));
    EXPECT_EQ(process.wait(30s), kUsage) << process.output();
    EXPECT_FALSE(std::filesystem::exists(folder("run")));
    return process.output();
  };
  EXPECT_THAT(output_of({"--at-once", "2", "--slaves", "2", "--shares", "1,1"}),
              HasSubstr("--shares cannot be combined with --at-once 2"));
  EXPECT_THAT(output_of({"--at-once", "2", "--slaves", "2", "--wire", "bf16"}), HasSubstr("--wire cannot be combined"));
  EXPECT_THAT(output_of({"--at-once", "2", "--meter", "none"}), HasSubstr("--meter cannot be combined"));
  EXPECT_THAT(output_of({"--master-jobs", "2"}), HasSubstr("--master-jobs needs --at-once"));
  EXPECT_THAT(output_of({"--at-once", "2", "--master-jobs", "0"}), HasSubstr("leaves no machine to train on"));
}

/// Slaves compute convolutions alone: a search of nets without any stops, and goes on where this machine trains.
TEST_F(SearchesAtOnce, StopWhereNoMachineCanTrainATrial) {
  std::ofstream(folder("dense.yaml"))
      << "name: dense\ninput: {channels: 1, height: 28, width: 28}\nlayers:\n"
         "  - {name: out, type: dense, units: 10}\n"
         "  - {name: loss, type: softmax_cross_entropy}\ntraining: {batch: 50, epochs: 1}\n";
  std::ofstream(folder("dense-space.yaml"))
      << "net: dense.yaml\nmethod: random\ntrials: 2\nparameters: {training.learning_rate: {log: [0.001, 0.1]}}\n";
  Process first = slave("slave-1");
  Process process = master({"search", folder("dense-space.yaml"), "--at-once", "2", "--slaves", "1", "--master-jobs",
                            "0", "--listen", endpoint_, "--insecure", "--threads", "1", "--out", folder("run")});
  EXPECT_EQ(process.wait(100s), kFailure) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr("the search stopped: trial 1 failed on none"),
                                      HasSubstr("give --master-jobs 1"), HasSubstr("go on with: ")));
  Process again = master({"search", "--resume", folder("run"), "--slaves", "0", "--master-jobs", "1"});
  EXPECT_EQ(again.wait(100s), kSuccess) << again.output();
  EXPECT_EQ(lines("run").size(), 2U);
}

/// A part of the training images judges trials, by the space or by the option; the test images do not.
TEST_F(SearchesAtOnce, MayBeJudgedByAPartForValidation) {
  const auto arguments = search("run");
  space("trials: 1\nval_split: 0.25\nrungs: {first: 500, last: 1000}\n");
  Process process = master(arguments);
  ASSERT_EQ(process.wait(100s), kSuccess) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("1502 images for validation decide; the 1000 test images are left"));
  Process train = master({"train", folder("run/best.yaml"), "--seed", "3", "--val-split", "0.25", "--steps", "10",
                          "--threads", "1", "--out", folder("again")});
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  EXPECT_TRUE(file("again/weights.safetensors") == file("run/trials/0001/weights.safetensors"));
  Process changed = master({"search", "--resume", folder("run"), "--val-split", "0.5"});
  EXPECT_EQ(changed.wait(30s), kUsage);
  Process more = master({"search", "--resume", folder("run"), "--trials", "2"});
  ASSERT_EQ(more.wait(100s), kSuccess) << more.output();
  EXPECT_THAT(more.output(), HasSubstr("1502 images for validation decide"));
  std::vector<std::string> other = search("other", {"--val-split", "0.1", "--at-once", "2"});
  space("trials: 1\nval_split: 0.25\nrungs: {first: 500, last: 1000}\n");
  Process option = master(other);
  ASSERT_EQ(option.wait(100s), kSuccess) << option.output();
  EXPECT_THAT(option.output(), testing::ContainsRegex("60[0-9] images for validation decide"));
}

}  // namespace
}  // namespace convoy
