// Lists of jobs as their users see them: over slaves that are killed, with a master that is killed, interrupted,
// resumed. In the end each job has the weights that `train` would have given it.

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

using Json = nlohmann::json;

/// A small net for each job; the jobs differ in length.
struct SmallJob {
  std::string name;
  int filters = 4;
  int epochs = 1;
  int seed = 1;
  int machines = 1;
};
const std::vector<SmallJob> kJobs{{"a", 3, 1, 1}, {"b", 6, 1, 2}, {"c", 4, 2, 1}, {"d", 5, 1, 3}};

class Jobs : public Programs {
 protected:
  std::string list(const std::vector<SmallJob>& jobs = kJobs, const std::string& more = "") const {
    const std::string file = folder("jobs.yaml");
    std::ofstream out(file);
    out << "net: " << kSource
        << "/nets/glyphs.yaml\nset: {conv2.filters: 6, dense1.units: 16, training.batch: 50}\njobs:\n";
    for (const SmallJob& job : jobs) {
      out << "  - {name: " << job.name << ", seed: " << job.seed << ", epochs: " << job.epochs
          << ", machines: " << job.machines << ", set: {conv1.filters: " << job.filters << "}}\n";
    }
    out << more;
    return file;
  }
  std::vector<std::string> command(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"jobs", list(), "--checkpoint-seconds", "0.1", "--out", folder(out)};
    const auto given = [&](const char* option) { return std::ranges::find(more, option) != more.end(); };
    if (!given("--threads")) arguments.insert(arguments.end(), {"--threads", "1"});
    if (given("--slaves")) {
      arguments.insert(arguments.end(), {"--listen", endpoint_, "--insecure"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string file(const std::string& name) const { return file_bytes(folder(name)); }

  /// The weights of a job as `train` finds them, alone.
  void expect_weights_of_train(const std::string& out, const std::vector<SmallJob>& jobs = kJobs) const {
    for (const SmallJob& job : jobs) {
      const std::string alone = folder("train-" + job.name);
      Process train =
          master({"train", kSource + "/nets/glyphs.yaml", "--set", "conv2.filters=6", "--set", "dense1.units=16",
                  "--set", fmt::format("conv1.filters={}", job.filters), "--batch", "50", "--epochs",
                  std::to_string(job.epochs), "--seed", std::to_string(job.seed), "--threads", "1", "--out", alone});
      ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
      EXPECT_EQ(file(out + "/" + job.name + "/weights.safetensors"), file_bytes(alone + "/weights.safetensors"))
          << job.name;
    }
  }

  /// Expects that a job has the accuracy and the loss that `train` finds on this machine, but for rounding: other plans
  /// add in another order.
  void expect_result_of_train(const std::string& out, const SmallJob& job) const {
    const std::string alone = folder("train-" + job.name);
    Process train = master({"train",     kSource + "/nets/glyphs.yaml",
                            "--set",     "conv2.filters=6",
                            "--set",     "dense1.units=16",
                            "--set",     fmt::format("conv1.filters={}", job.filters),
                            "--batch",   "50",
                            "--epochs",  std::to_string(job.epochs),
                            "--seed",    std::to_string(job.seed),
                            "--threads", "1",
                            "--out",     alone,
                            "--format",  "json"});
    ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
    Json last;
    std::istringstream events(train.output());
    for (std::string line; std::getline(events, line);) {
      const Json event = Json::parse(line, nullptr, false);
      if (event.is_object() && event.value("event", "") == "epoch") last = event;
    }
    const std::vector<Json> all = lines(out);
    const auto found = std::ranges::find_if(
        all, [&](const Json& each) { return each["job"] == job.name && each["outcome"] == "finished"; });
    ASSERT_NE(found, all.end());
    const Json& result = *found;
    EXPECT_NEAR(result["accuracy"].get<double>(), last["test_accuracy"].get<double>(), 0.01);
    EXPECT_NEAR(result["loss"].get<double>(), last["test_loss"].get<double>(), 0.02 * last["test_loss"].get<double>());
  }

  std::vector<Json> lines(const std::string& out) const {
    std::istringstream text(file(out + "/jobs.jsonl"));
    std::vector<Json> found;
    for (std::string line; std::getline(text, line);) found.push_back(Json::parse(line));
    return found;
  }
  std::size_t finished(const std::string& out) const {
    const auto all = lines(out);
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [](const Json& each) { return each["outcome"] == "finished"; }));
  }
  std::set<std::string> machines(const std::string& out) const {
    std::set<std::string> names;
    for (const Json& each : lines(out)) names.insert(each["machine"].get<std::string>());
    return names;
  }
  /// Expects that these machines and no others have trained. A busy computer may make one so slow that it rightly stays
  /// idle, so that all must have trained only where their times in the JSON lines differ by less than a factor of 2.
  void expect_machines(const Process& process, const std::set<std::string>& expected) const {
    const std::set<std::string> used = machines("out");
    EXPECT_TRUE(std::ranges::includes(expected, used)) << process.output();
    double slowest = 1e300;
    double fastest = 0.0;
    std::istringstream events(process.output());
    for (std::string line; std::getline(events, line);) {
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object() || event.value("event", "") != "machine") continue;
      slowest = std::min(slowest, event.value("gflops", 0.0));
      fastest = std::max(fastest, event.value("gflops", 0.0));
    }
    EXPECT_GT(fastest, 0.0) << process.output();
    if (fastest < 2.0 * slowest) {
      EXPECT_EQ(used, expected) << process.output();
    }
  }
  /// Waits until some job has done some steps on a machine. Returns the machine and the job.
  std::pair<std::string, std::string> await_job(Process& process, const std::string& out) const {
    for (int i = 0; i < 6000 && process.running(); ++i) {
      for (const auto& [machine, job] : newest_by_machine(process.output(), "begin", "job")) {
        if (file(out + "/" + job + "/events.jsonl").find(R"("event":"step")") != std::string::npos)
          return {machine, job};
      }
      std::this_thread::sleep_for(10ms);
    }
    return {};
  }
};

TEST_F(Jobs, TrainAsTrainDoesWhereverTheyRun) {
  Process first = slave("slave-1");
  Process second = slave("slave-2");
  Process process = master(command("out", {"--slaves", "2", "--format", "json"}));
  ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr(R"("how":"finished")"), Not(HasSubstr("lost"))));
  expect_machines(process, {"master", "slave-1", "slave-2"});
  EXPECT_EQ(finished("out"), 4U);
  EXPECT_THAT(file("out/jobs.csv"),
              AllOf(HasSubstr("job,outcome,machines"), HasSubstr("\na,finished,"), HasSubstr("\nd,finished,")));
  expect_weights_of_train("out");
  // The folder of a job is that of a run.
  Process further = master({"train", "--resume", folder("out/a"), "--epochs", "2", "--steps", "125"});
  EXPECT_EQ(further.wait(60s), kSuccess) << further.output();
  EXPECT_THAT(further.output(), HasSubstr("resuming after step 120"));
  Process test = master({"test", folder("out/b/config.yaml"), "--weights", folder("out/b/weights.safetensors")});
  EXPECT_EQ(test.wait(60s), kSuccess) << test.output();
  // The slaves wait for the next master.
  EXPECT_TRUE(first.running() && second.running());
  Process again = master({"jobs", "--resume", folder("out"), "--slaves", "0"});
  EXPECT_EQ(again.wait(60s), kSuccess) << again.output();
  EXPECT_THAT(again.output(),
              AllOf(HasSubstr("4 jobs in "), HasSubstr("all jobs have finished"), HasSubstr("accuracy")));
  EXPECT_EQ(finished("out"), 4U);
}

TEST_F(Jobs, GoOnElsewhereWhenASlaveIsKilled) {
  Process first = slave("slave-1");
  Process second = slave("slave-2");
  Process process = master(command("out", {"--slaves", "2", "--master-jobs", "0", "--format", "json"}));
  const auto [victim, job] = await_job(process, "out");
  ASSERT_NE(job, "") << process.output();
  (victim == "slave-1" ? first : second).signal(SIGKILL);
  ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
  EXPECT_EQ(finished("out"), 4U);
  const std::vector<Json> all = lines("out");
  const auto lost = std::ranges::find_if(all, [](const Json& each) { return each["outcome"] == "lost"; });
  ASSERT_NE(lost, all.end()) << process.output();
  EXPECT_EQ((*lost)["machine"], victim);
  EXPECT_EQ((*lost)["job"], job);
  EXPECT_THAT((*lost)["why"].get<std::string>(), HasSubstr(victim));
  expect_weights_of_train("out");
}

TEST_F(Jobs, SendEachImageToASlaveOnce) {
  const std::vector<SmallJob> jobs{{"long", 6, 2, 1}, {"short", 4, 1, 1}};
  constexpr double kPixels = 28.0 * 28.0;
  constexpr double kSet = 7000.0 * kPixels;  // 6000 training images, 1000 test images
  const auto run = [&](const std::string& out) {
    Process worker = slave("slave-1", {"--cache", folder("cache")});
    std::vector<std::string> arguments = command(out, {"--slaves", "1", "--master-jobs", "0"});
    list(jobs);
    Process process = master(arguments);
    EXPECT_EQ(process.wait(100s), kSuccess) << process.output();
    worker.signal(SIGINT);  // it writes the images to its cache
    worker.wait(20s);
    std::map<std::string, std::pair<double, double>> sent_and_kept;
    for (const Json& each : lines(out)) {
      sent_and_kept[each["job"]] = {each.value("image_bytes", 0.0), each.value("image_bytes_kept", 0.0)};
    }
    return sent_and_kept;
  };
  auto bytes = run("out");
  EXPECT_EQ(bytes["long"], std::pair(kSet, kSet)) << "two epochs with a test each";
  EXPECT_EQ(bytes["short"], std::pair(0.0, kSet));
  EXPECT_THAT(file("out/jobs.csv"), HasSubstr(",image_bytes,image_bytes_kept,why\n"));
  expect_weights_of_train("out", jobs);
  bytes = run("again");
  EXPECT_EQ(bytes["long"], std::pair(0.0, 2.0 * kSet)) << "another slave finds the images in its cache";
  // One damaged byte in each file of the cache.
  for (const auto& each : std::filesystem::directory_iterator(folder("cache") + "/images")) {
    std::fstream damaged(each.path(), std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-1, std::ios::end);
    const int last = (damaged.seekg(-1, std::ios::end), damaged.get());
    damaged.seekp(-1, std::ios::end);
    damaged.put(static_cast<char>(last ^ 1));
  }
  bytes = run("damaged");
  EXPECT_GT(bytes["long"].first, 0.0);
  EXPECT_LE(bytes["long"].first, kSet);
  EXPECT_EQ(bytes["short"].first, 0.0);
  EXPECT_EQ(file("damaged/long/weights.safetensors"), file("out/long/weights.safetensors"));
}

TEST_F(Jobs, AreTrainedByGroupsOfSlaves) {
  const std::vector<SmallJob> jobs{{"pair", 8, 2, 1, 2}, {"one", 4, 1, 2}};
  Process first = slave("slave-1");
  Process second = slave("slave-2");
  std::vector<std::string> arguments = command("out", {"--slaves", "2", "--master-jobs", "0", "--format", "json"});
  list(jobs);
  Process process = master(arguments);
  ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
  EXPECT_EQ(finished("out"), 2U);
  EXPECT_TRUE(machines("out").contains("slave-1+slave-2")) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("a step of 2 slaves together is predicted to take "));
  const Json plan = Json::parse(file("out/pair/plan.json"));
  EXPECT_EQ(plan["members"], (Json{"slave-1", "slave-2"}));
  expect_weights_of_train("out", {jobs[1]});
  expect_result_of_train("out", jobs[0]);
}

TEST_F(Jobs, OfAGroupGoOnWithoutAKilledMemberAndThenElsewhere) {
  const std::vector<SmallJob> jobs{{"pair", 8, 3, 1, 2}};
  Process first = slave("slave-1");
  Process second = slave("slave-2");
  std::vector<std::string> arguments = command("out", {"--slaves", "2", "--master-jobs", "1", "--format", "json"});
  list(jobs);
  Process process = master(arguments);
  ASSERT_EQ(await_job(process, "out").first, "slave-1+slave-2") << process.output();
  second.signal(SIGKILL);
  ASSERT_TRUE(process.wait_for("1 slave is left", 60s)) << process.output();
  const std::string events = folder("out") + "/pair/events.jsonl";
  const auto steps = [&] {
    const std::string text = file_bytes(events);
    std::size_t count = 0;
    for (std::size_t at = text.find(R"("event":"step")"); at != std::string::npos;
         at = text.find(R"("event":"step")", at + 1)) {
      ++count;
    }
    return count;
  };
  const std::size_t before = steps();
  for (int i = 0; i < 6000 && process.running() && steps() < before + 3; ++i) std::this_thread::sleep_for(10ms);
  first.signal(SIGKILL);
  ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
  const std::vector<Json> all = lines("out");
  ASSERT_EQ(all.size(), 2U) << process.output();
  EXPECT_EQ(all[0]["outcome"], "lost");
  EXPECT_EQ(all[0]["machine"], "slave-1+slave-2");
  EXPECT_GT(all[0]["steps"].get<long>(), 0);
  EXPECT_EQ(all[1]["outcome"], "finished");
  EXPECT_EQ(all[1]["machine"], "master");
  expect_result_of_train("out", jobs[0]);
}

TEST_F(Jobs, UseASlaveThatComesLater) {
  Process first = slave("slave-1");
  std::vector<SmallJob> many;  // so that some still wait when the second slave has been timed
  for (const std::string name : {"a", "b", "c", "d", "e", "f"}) many.push_back({name, 4, 2, 1});
  std::vector<std::string> arguments = command("out", {"--slaves", "1", "--master-jobs", "0", "--format", "json"});
  list(many);
  Process process = master(arguments);
  ASSERT_EQ(await_job(process, "out").first, "slave-1") << process.output();
  Process second = slave("slave-2");
  ASSERT_EQ(process.wait(200s), kSuccess) << process.output();
  EXPECT_THAT(process.output(), HasSubstr(R"("machine":"slave-2")"));
  expect_machines(process, {"slave-1", "slave-2"});
}

TEST_F(Jobs, GoOnAfterTheMasterIsKilled) {
  const std::vector<std::string> arguments = command("out", {"--master-jobs", "2", "--threads", "2"});
  Process process = master(arguments);
  for (int i = 0; i < 6000 && process.running() && finished("out") < 1; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_GE(finished("out"), 1U) << process.output();
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait(20s), 128 + SIGKILL);
  std::ofstream(folder("out") + "/jobs.jsonl", std::ios::app) << R"({"job":"a","mach)";
  std::filesystem::remove(folder("jobs.yaml"));
  Process again = master({"jobs", "--resume", folder("out")});
  ASSERT_EQ(again.wait(200s), kSuccess) << again.output();
  EXPECT_THAT(again.output(), HasSubstr("finished before"));
  EXPECT_EQ(finished("out"), 4U);
  expect_weights_of_train("out");  // a job has one of two threads, as `train --threads 1`
}

TEST_F(Jobs, EndCleanlyWithTheCommandThatGoesOn) {
  Process slave_1 = slave("slave-1");
  Process process = master(command("out", {"--slaves", "1", "--format", "json"}));
  ASSERT_NE(await_job(process, "out").second, "") << process.output();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(60s), kInterrupted) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr(R"("how":"interrupted")"), HasSubstr(" jobs --resume " + folder("out")),
                                      HasSubstr(R"("outcome":"interrupted")")));
  Process other = master(command("out"));
  EXPECT_EQ(other.wait(30s), kFailure);
  EXPECT_THAT(other.output(), HasSubstr("already holds jobs; give --resume"));
  Process changed = master({"jobs", "--resume", folder("out"), "--batch", "10"});
  EXPECT_EQ(changed.wait(30s), kUsage);
  EXPECT_THAT(changed.output(), HasSubstr("--batch cannot be combined with --resume"));
  // Elsewhere than before: on this machine alone.
  Process again = master({"jobs", "--resume", folder("out"), "--slaves", "0"});
  ASSERT_EQ(again.wait(200s), kSuccess) << again.output();
  expect_weights_of_train("out");
}

TEST_F(Jobs, ThatFailEndNoOther) {
  std::vector<std::string> arguments = command("out");
  list({{"a", 3, 1, 1}, {"b", 3, 1, 2}}, "  - {name: wild, set: {training.learning_rate: 1000000}}\n");
  Process process = master(arguments);
  EXPECT_EQ(process.wait(200s), kFailure) << process.output();
  EXPECT_EQ(finished("out"), 2U);
  EXPECT_THAT(process.output(),
              AllOf(HasSubstr("wild: failed on master"), HasSubstr("1 of 3 jobs have failed"), HasSubstr("diverged")));
  EXPECT_THAT(file("out/jobs.csv"), AllOf(HasSubstr("\nwild,failed,master,"), HasSubstr("diverged")));
}

TEST_F(Jobs, AreRefusedBeforeAnythingRuns) {
  const auto output_of = [&](const std::string& job, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = command("out", std::move(more));
    list({{"a", 3, 1, 1}}, "  - " + job + "\n");
    Process process = master(arguments);
    EXPECT_EQ(process.wait(30s), kFailure) << process.output();
    EXPECT_FALSE(std::filesystem::exists(folder("out")));
    return process.output();
  };
  EXPECT_THAT(output_of("{name: b, net: none.yaml}"),
              AllOf(HasSubstr("jobs.yaml:5: job b: net is none.yaml"), HasSubstr("give the path of a net file")));
  EXPECT_THAT(output_of("{name: b, set: {conv7.filters: 3}}"),
              AllOf(HasSubstr("jobs.yaml:5: job b: "), HasSubstr("conv7")));
  EXPECT_THAT(output_of("{name: b, set: {conv1.filters: -3}}"),
              AllOf(HasSubstr("jobs.yaml:5: job b: "), HasSubstr("conv1.filters=-3")));
  EXPECT_THAT(output_of("{name: b, data: none}"), AllOf(HasSubstr("jobs.yaml:5: job b: "), HasSubstr("none")));
  EXPECT_THAT(output_of("{name: b, set: {training.batch: 7000}}"),
              AllOf(HasSubstr("jobs.yaml:5: job b: "), HasSubstr("7000"), HasSubstr("6000 training images")));
  EXPECT_THAT(output_of("{name: b, machines: 2}"),
              AllOf(HasSubstr("jobs.yaml:5: job b: machines is 2"), HasSubstr("give --slaves 2")));
  EXPECT_THAT(output_of("{name: b, machines: 3}", {"--slaves", "2"}), HasSubstr("--slaves 2 waits for fewer"));
  std::ofstream(folder("dense.yaml")) << "jobs: [{name: b, net: " << kSource << "/nets/small-mlp.yaml, machines: 2}]";
  Process dense = master({"jobs", folder("dense.yaml"), "--slaves", "2", "--out", folder("out")});
  EXPECT_EQ(dense.wait(30s), kFailure);
  EXPECT_THAT(dense.output(), HasSubstr("slaves share only convolutions, and the net has none; leave machines out"));
  EXPECT_THAT(output_of("{name: a}"), HasSubstr("jobs.yaml:5: job: name is a, the name of another job"));
  EXPECT_THAT(output_of("{name: b}", {"--device", "paced:9"}), HasSubstr("computes nothing"));
  EXPECT_THAT(output_of("{name: b}", {"--master-jobs", "0"}), HasSubstr("leaves no machine"));
  list({{"a", 3, 1, 1}});
  Process elsewhere = master({"jobs", folder("jobs.yaml"), "--slaves", "1", "--insecure", "--listen",
                              "tcp://192.0.2.1:5999", "--out", folder("out")});  // this machine lacks the address
  EXPECT_EQ(elsewhere.wait(30s), kFailure) << elsewhere.output();
  EXPECT_THAT(elsewhere.output(), HasSubstr("192.0.2.1"));
  EXPECT_FALSE(std::filesystem::exists(folder("out")));
  Process none = master({"jobs", "--resume", folder("none")});
  EXPECT_EQ(none.wait(30s), kFailure);
  EXPECT_THAT(none.output(), AllOf(HasSubstr("there are no jobs to resume"), HasSubstr("none/jobs.yaml")));
  Process missing = master({"jobs"});
  EXPECT_EQ(missing.wait(30s), kUsage);
  EXPECT_THAT(missing.output(), HasSubstr("jobs needs JOBS"));
}

}  // namespace
}  // namespace convoy
