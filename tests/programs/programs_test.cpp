// Runs the programs as their users do: as real processes over TCP, some of which are interrupted and killed.

#include "tests/programs/programs.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST_F(Programs, TrainAloneAndTest) {
  Process train = master(training(folder("run"), {"--epochs", "1"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  for (const std::string file : {"config.yaml", "plan.json", "results.csv", "events.jsonl", "weights.safetensors",
                                 "checkpoint.safetensors", "curves.gnuplot"}) {
    EXPECT_TRUE(std::filesystem::exists(folder("run") + "/" + file)) << file;
  }
  Process test = master({"test", folder("run") + "/config.yaml", "--weights", folder("run") + "/weights.safetensors",
                         "--format", "json"});
  ASSERT_EQ(test.wait(60s), kSuccess) << test.output();
  // The last line of results.csv has the same accuracy as a test of the saved weights.
  const std::string results = file_bytes(folder("run") + "/results.csv");
  std::istringstream row(results.substr(results.find('\n') + 1));
  std::string cell;
  for (int i = 0; i < 6; ++i) std::getline(row, cell, ',');
  const std::string output = test.output();
  const double tested = std::stod(output.substr(output.find("\"accuracy\":") + 11));
  EXPECT_NEAR(tested, std::stod(cell), 1e-6) << output;
  EXPECT_GT(tested, 0.3);
}

#ifdef FAKE_OPENCL
/// Threads that spin while they wait would take cores from threads with work.
TEST_F(Programs, HaveWaitingThreadsSleepUnlessTheUserChose) {
  for (const std::string& program : {kMaster, kSlave, kBench}) {
    const auto settings = [&](const std::vector<std::string>& variables) {
      std::vector<std::string> command{"/usr/bin/env", "-u", "OMP_WAIT_POLICY", "OMP_DISPLAY_ENV=verbose"};
      command.insert(command.end(), variables.begin(), variables.end());
      command.insert(command.end(), {program, "--help"});
      Process process(command);
      EXPECT_EQ(process.wait(20s), kSuccess);
      return process.output();
    };
    const std::string chosen = settings({"GOMP_SPINCOUNT=7"});
    if (chosen.find("GOMP_SPINCOUNT") == std::string::npos) GTEST_SKIP() << "the programs do not use libgomp";
    EXPECT_THAT(chosen, testing::Not(HasSubstr("GOMP_SPINCOUNT = '5000'")));
    EXPECT_THAT(settings({}), HasSubstr("GOMP_SPINCOUNT = '5000'"));
  }
}

TEST_F(Programs, ASlaveWhoseDeviceVanishesSaysSoAndEnds) {
  Process good = slave("good");
  Process bad({"/usr/bin/env", std::string("CONVOY_OPENCL_LIBRARY=") + FAKE_OPENCL, "FAKE_OPENCL_VANISHES=1", kSlave,
               endpoint_, "--insecure", "--name", "bad", "--device", "opencl:0"});
  Process train = master(training(folder("run"), {"--slaves", "2", "--shares", "1,1", "--steps", "20"}));
  EXPECT_EQ(bad.wait(60s), kFailure);
  EXPECT_THAT(bad.output(), AllOf(HasSubstr("Fake GPU"), HasSubstr("CL_DEVICE_NOT_AVAILABLE")));
  EXPECT_EQ(train.wait(60s), kSuccess) << train.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("slave bad failed"), HasSubstr("CL_DEVICE_NOT_AVAILABLE"),
                                    HasSubstr("going on after step")));
}
#endif

TEST_F(Programs, ARunThatNeverBeganLeavesItsFolderFree) {
  std::vector<std::string> wrong = training(folder("run"), {"--slaves", "1"});
  std::ranges::replace(wrong, endpoint_, "127.0.0.1:1");
  Process failed = master(wrong);
  EXPECT_EQ(failed.wait(30s), kFailure) << failed.output();
  Process train = master(training(folder("run"), {"--steps", "2"}));
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
  Process again = master(training(folder("run"), {"--steps", "2"}));
  EXPECT_EQ(again.wait(30s), kFailure) << again.output();
  EXPECT_THAT(again.output(), HasSubstr("already holds a run"));
}

TEST_F(Programs, SlavesServeOneRunAfterAnotherWithTheSameBits) {
  Process a = slave("a");
  Process b = slave("b");
  for (const std::string run : {"first", "second"}) {
    Process train = master(training(folder(run), {"--slaves", "2", "--shares", "1,2", "--steps", "20"}));
    ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
    EXPECT_THAT(train.output(), AllOf(HasSubstr("compute"), HasSubstr("run folder: " + folder(run))));
  }
  EXPECT_EQ(file_bytes(folder("first") + "/weights.safetensors"),
            file_bytes(folder("second") + "/weights.safetensors"));
  EXPECT_TRUE(a.running()) << a.output();
  a.signal(SIGINT);
  EXPECT_EQ(a.wait(10s), kSuccess) << a.output();
}

/// The second run begins with the same weights as the first, so the files in the slave's cache folder do not change.
TEST_F(Programs, ASlaveThatIsStartedAnewHasItsWeights) {
  const auto files = [this] {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& entry : std::filesystem::directory_iterator(folder("cache"))) {
      times[entry.path().filename()] = entry.last_write_time();
    }
    return times;
  };
  const auto train = [this](const std::string& run) {
    Process worker = slave("a", {"--cache", folder("cache"), "--once"});
    // The plan is fixed, since another number of micro-batches may round differently.
    Process process =
        master(training(folder(run), {"--slaves", "1", "--shares", "1", "--micro-batch", "50", "--steps", "3"}));
    EXPECT_EQ(process.wait(100s), kSuccess) << process.output();
    EXPECT_EQ(worker.wait(20s), kSuccess) << worker.output();
  };
  train("first");
  const auto stored = files();
  EXPECT_EQ(stored.size(), 2U) << "there is a block for each layer";
  train("second");
  const auto used = files();
  ASSERT_EQ(used.size(), 2U);
  for (const auto& [file, time] : stored) EXPECT_GT(used.at(file), time) << "the second run must have used the file";
  EXPECT_EQ(file_bytes(folder("first") + "/weights.safetensors"),
            file_bytes(folder("second") + "/weights.safetensors"));
}

TEST_F(Programs, InterruptAndResumeGiveTheWeightsOfAnUndisturbedRun) {
  Process whole = master(training(folder("whole"), {"--epochs", "1"}));
  ASSERT_EQ(whole.wait(100s), kSuccess) << whole.output();

  Process cut = master(training(folder("cut"), {"--epochs", "1", "--format", "json"}));
  ASSERT_TRUE(cut.wait_for("\"event\":\"step\"", 60s)) << cut.output();
  cut.signal(SIGINT);
  ASSERT_EQ(cut.wait(30s), kInterrupted) << cut.output();
  EXPECT_THAT(cut.output(), HasSubstr("--resume"));

  Process rest = master(training(folder("cut"), {"--epochs", "1", "--resume"}));
  ASSERT_EQ(rest.wait(100s), kSuccess) << rest.output();
  EXPECT_EQ(file_bytes(folder("whole") + "/weights.safetensors"), file_bytes(folder("cut") + "/weights.safetensors"));
}

TEST_F(Programs, AKilledSlaveCostsNoStepAndItsSuccessorJoins) {
  Process a = slave("a");
  auto b = std::make_unique<Process>(slave("b"));
  Process train = master(training(folder("run"), {"--slaves", "2", "--epochs", "50", "--format", "json"}));
  ASSERT_TRUE(train.wait_for("\"step\":20,", 60s)) << train.output();
  b->signal(SIGKILL);
  ASSERT_TRUE(train.wait_for("going on after step", 20s)) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("slave b is gone"));
  b = std::make_unique<Process>(slave("b"));
  ASSERT_TRUE(train.wait_for(" joins", 20s)) << train.output();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(20s), kInterrupted) << train.output();
  EXPECT_TRUE(a.running()) << "the other slave waits for the next run: " << a.output();
  Process resumed = master(training(folder("run"), {"--slaves", "2", "--epochs", "50", "--steps", "130", "--resume"}));
  ASSERT_EQ(resumed.wait(100s), kSuccess) << resumed.output();
}

TEST_F(Programs, ASuspendedSlaveIsNoticedAndMayComeBack) {
  Process a = slave("a");
  Process b = slave("b");
  Process train = master(training(folder("run"), {"--slaves", "2", "--epochs", "500", "--format", "json"}));
  ASSERT_TRUE(train.wait_for("\"step\":20,", 60s)) << train.output();
  b.signal(SIGSTOP);
  ASSERT_TRUE(train.wait_for("slave b is gone", 20s)) << train.output();
  b.signal(SIGCONT);
  ASSERT_TRUE(train.wait_for("slave b (", 30s)) << train.output() << b.output();
  ASSERT_TRUE(train.wait_for(" joins", 30s)) << train.output() << b.output();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(20s), kInterrupted) << train.output();
}

TEST_F(Programs, ASlaveThatIsInterruptedHandsItsShardOver) {
  Process a = slave("a");
  Process b = slave("b");
  Process train = master(training(folder("run"), {"--slaves", "2", "--epochs", "500", "--format", "json"}));
  ASSERT_TRUE(train.wait_for("\"step\":20,", 60s)) << train.output();
  b.signal(SIGINT);
  ASSERT_EQ(b.wait(20s), kSuccess) << b.output();
  EXPECT_THAT(b.output(), HasSubstr("left: the run goes on without this slave"));
  ASSERT_TRUE(train.wait_for("slave b leaves", 20s)) << train.output();
  a.signal(SIGKILL);
  ASSERT_TRUE(train.wait_for("this machine goes on alone", 20s)) << train.output();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(20s), kInterrupted) << train.output();
  EXPECT_THAT(train.output(), testing::Not(HasSubstr("slave b is gone")));
}

TEST_F(Programs, ACheckpointThatCannotBeWrittenDoesNotEndARun) {
  Process train =
      master(training(folder("run"), {"--epochs", "500", "--format", "json", "--checkpoint-seconds", "0.2"}));
  ASSERT_TRUE(train.wait_for("\"step\":20,", 60s)) << train.output();
  // A folder blocks the file's name, because root may write files in spite of permissions.
  const std::string obstacle = folder("run") + "/checkpoint-next.safetensors.part";
  std::error_code error;
  while (!std::filesystem::create_directory(obstacle, error)) {
  }
  ASSERT_TRUE(train.wait_for("cannot be written", 20s)) << train.output();
  std::filesystem::remove(obstacle);
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(20s), kInterrupted) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("training goes on"));
}

TEST_F(Programs, AHangupWritesACheckpoint) {
  Process train =
      master(training(folder("run"), {"--epochs", "500", "--format", "json", "--checkpoint-seconds", "1e6"}));
  ASSERT_TRUE(train.wait_for("\"step\":2,", 60s)) << train.output();
  train.signal(SIGHUP);
  const auto checkpoints = [&] {
    const std::string output = train.output();
    int count = 0;
    for (std::size_t at = 0; (at = output.find("\"event\":\"checkpoint\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (checkpoints() < 2 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(checkpoints(), 2) << "one checkpoint at the beginning and one at the request";
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(20s), kInterrupted) << train.output();
}

TEST_F(Programs, SlaveOutlivesAKilledMaster) {
  Process a = slave("a");
  {
    Process train = master(training(folder("run"), {"--slaves", "1", "--epochs", "50", "--format", "json"}));
    ASSERT_TRUE(train.wait_for("\"event\":\"step\"", 60s)) << train.output();
    train.signal(SIGKILL);
    train.wait(10s);
  }
  ASSERT_TRUE(a.wait_for("waiting for the next run", 20s)) << a.output();
  Process next = master(training(folder("next"), {"--slaves", "1", "--steps", "5"}));
  ASSERT_EQ(next.wait(60s), kSuccess) << next.output() << a.output();
}

TEST_F(Programs, SeveralDevicesAreSeveralSlaves) {
  Process both(
      {kSlave, endpoint_, "--insecure", "--name", "both", "--threads", "1", "--device", "cpu,check:eigen,reference"});
  Process train = master(training(folder("run"), {"--slaves", "2", "--shares", "1,1", "--steps", "3"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output() << both.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("both-cpu"), HasSubstr("both-check:eigen,reference")));
  both.signal(SIGTERM);
  EXPECT_EQ(both.wait(10s), kSuccess) << both.output();
}

TEST_F(Programs, ADeviceThatFailsLeavesTheOthersToWork) {
  Process slaves({kSlave, endpoint_, "--insecure", "--name", "both", "--threads", "1", "--device", "cpu,warp"});
  ASSERT_TRUE(slaves.wait_for("device warp ended with exit code 1; the other slaves go on", 20s)) << slaves.output();
  Process train = master(training(folder("run"), {"--slaves", "1", "--steps", "3"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output() << slaves.output();
  slaves.signal(SIGINT);
  EXPECT_EQ(slaves.wait(10s), kFailure) << slaves.output();
}

TEST_F(Programs, SlaveThatCannotHoldItsShardIsNamed) {
  Process a = slave("tiny", {"--memory", "20KiB"});
  Process train = master(training(folder("run"), {"--slaves", "1"}));
  EXPECT_EQ(train.wait(30s), kFailure) << train.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("the net does not fit"), HasSubstr("tiny")));
  Process fixed = master(training(folder("fixed"), {"--slaves", "1", "--shares", "1"}));
  EXPECT_EQ(fixed.wait(30s), kFailure) << fixed.output();
  EXPECT_THAT(fixed.output(), AllOf(HasSubstr("slave tiny"), HasSubstr("--memory")));
}

TEST_F(Programs, PlanIsPrintedWithoutTraining) {
  Process a = slave("a");
  Process plan = master({"plan", kSource + "/nets/glyphs.yaml", "--slaves", "1", "--listen", endpoint_, "--insecure"});
  ASSERT_EQ(plan.wait(60s), kSuccess) << plan.output();
  EXPECT_THAT(plan.output(), AllOf(HasSubstr("stage conv1"), HasSubstr("MiB"), HasSubstr(" ms"),
                                   HasSubstr("a step takes about"), HasSubstr("Mbit/s"), HasSubstr("other plans")));
}

TEST_F(Programs, ARingOfProcessesGivesTheWeightsOfAStar) {
  Process a = slave("a");
  Process b = slave("b");
  Process c = slave("c");
  for (const std::string exchange : {"star", "ring"}) {
    Process train = master({"train", kSource + "/nets/glyphs.yaml", "--slaves", "3", "--shares", "2,1,1", "--exchange",
                            exchange, "--micro-batch", "10", "--steps", "10", "--listen", endpoint_, "--insecure",
                            "--out", folder(exchange), "--threads", "1"});
    ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
    EXPECT_THAT(file_bytes(folder(exchange) + "/plan.json"), HasSubstr("\"exchange\": \"" + exchange + "\""));
  }
  EXPECT_EQ(file_bytes(folder("star") + "/weights.safetensors"), file_bytes(folder("ring") + "/weights.safetensors"));
}

TEST_F(Programs, TheThesisSchemeTrainsAndItsCalibrationPlansAgain) {
  Process a = slave("a");
  Process b = slave("b");
  const std::string net = kSource + "/nets/glyphs.yaml";
  Process train = master({"train", net, "--slaves", "2", "--plan", "thesis", "--steps", "10", "--listen", endpoint_,
                          "--insecure", "--out", folder("run"), "--threads", "1"});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("plan: thesis, fp32; a step takes about"));
  EXPECT_THAT(file_bytes(folder("run") + "/plan.json"), HasSubstr("\"exchange\": \"thesis\""));
  Process plan = master({"plan", net, "--calibration", folder("run") + "/calibration.json"});
  ASSERT_EQ(plan.wait(60s), kSuccess) << plan.output();
  EXPECT_THAT(plan.output(), AllOf(HasSubstr("a step takes about"), HasSubstr("other plans"), HasSubstr("Mbit/s")));
  Process other = master({"plan", net, "--batch", "7", "--calibration", folder("run") + "/calibration.json"});
  EXPECT_EQ(other.wait(60s), kFailure);
  EXPECT_THAT(other.output(), HasSubstr("calibration.json: the timings are for a batch of"));
}

TEST_F(Programs, APlanIsMadeForMachinesThatAreDescribed) {
  Process plan = master({"plan", kSource + "/nets/squeezenet.yaml", "--batch", "16", "--wire", "bf16", "--machines",
                         "100@1000,2x400@1000"});
  ASSERT_EQ(plan.wait(60s), kSuccess) << plan.output();
  EXPECT_THAT(plan.output(), AllOf(HasSubstr("slave3"), HasSubstr("its link 944 Mbit/s out"), HasSubstr("other plans"),
                                   ContainsRegex("members, (ring|star), bf16(, micro-batches of [0-9]+)?\n"),
                                   HasSubstr("the master's machine alone"),
                                   HasSubstr("images take 2.41 MB of these, a byte for each value")));
}

TEST_F(Programs, ASlaveThatDiesInARingIsNamedAndReplaced) {
  Process a = slave("a");
  Process c = slave("c");
  Process train = master({"train", kSource + "/nets/glyphs.yaml", "--slaves", "3", "--shares", "1,1,1", "--exchange",
                          "ring", "--epochs", "50", "--listen", endpoint_, "--insecure", "--out", folder("run"),
                          "--threads", "1", "--format", "json"});
  {
    Process b = slave("b");
    ASSERT_TRUE(train.wait_for("\"step\":20,", 60s)) << train.output();
    b.signal(SIGKILL);
    b.wait(10s);
  }
  ASSERT_TRUE(train.wait_for("going on after step", 60s)) << train.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("slave b is gone"), HasSubstr("2 slaves are left")));
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(20s), kInterrupted) << train.output();
}

TEST(SlaveProgram, ListsItsDevices) {
  Process list({kSlave, "--list-devices"});
  EXPECT_EQ(list.wait(100s), kSuccess);  // an OpenCL driver may compile its kernels first
  EXPECT_THAT(list.output(), AllOf(HasSubstr("cpu"), HasSubstr("reference"), HasSubstr("eigen")));
}

/// Without CLBlast, the list has no rows for it, and a slave with such a device is told what is missing.
TEST(SlaveProgram, SaysThatThereIsNoClblast) {
  const std::string nowhere = "CONVOY_CLBLAST_LIBRARY=/nowhere/libclblast.so";
  Process list({"/usr/bin/env", nowhere, kSlave, "--list-devices"});
  EXPECT_EQ(list.wait(100s), kSuccess);
  EXPECT_THAT(list.output(), Not(HasSubstr("clblast")));
  if (list.output().find("opencl:0 ") == std::string::npos)
    GTEST_SKIP() << "there is no OpenCL device: " << list.output();
  Process serve({"/usr/bin/env", nowhere, kSlave, "tcp://127.0.0.1:1", "--insecure", "--device", "clblast:0"});
  EXPECT_NE(serve.wait(20s), kSuccess);
  EXPECT_THAT(serve.output(), AllOf(HasSubstr("clblast:0 cannot be used"), HasSubstr("/nowhere/libclblast.so")));
}

}  // namespace
}  // namespace convoy
