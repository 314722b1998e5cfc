// The programs as their users run them: real processes over TCP, interrupted and killed for real.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "core/exit_code.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

const std::string kMaster = CONVOY_MASTER;
const std::string kSlave = CONVOY_SLAVE;
const std::string kSource = CONVOY_SOURCE_DIR;

std::string file_bytes(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

class Programs : public testing::Test {
 protected:
  Process master(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kMaster);
    return Process(arguments);
  }

  /// `train` on glyphs with a small net, small enough for a test and long enough to be disturbed.
  std::vector<std::string> training(const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train",      kSource + "/nets/glyphs.yaml",
                                       "--set",      "conv1.filters=6",
                                       "--set",      "conv2.filters=9",
                                       "--batch",    "50",
                                       "--threads",  "1",
                                       "--exchange", "star",  // with slaves, whether they make it faster or not
                                       "--out",      out,
                                       "--listen",   endpoint_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Process slave(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> command{kSlave, endpoint_, "--name", name, "--threads", "1"};
    command.insert(command.end(), more.begin(), more.end());
    return Process(command);
  }

  std::string folder(const std::string& name) const { return scratch_.path() + "/" + name; }

  TemporaryFolder scratch_;
  std::string endpoint_ = free_endpoint();
};

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
  // The last line of results.csv holds the same accuracy as a test of the saved weights.
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
TEST_F(Programs, ASlaveWhoseDeviceVanishesSaysSoAndEnds) {
  Process good = slave("good");
  Process bad({"/usr/bin/env", std::string("CONVOY_OPENCL_LIBRARY=") + FAKE_OPENCL, "FAKE_OPENCL_VANISHES=1", kSlave,
               endpoint_, "--name", "bad", "--device", "opencl:0"});
  Process train = master(training(folder("run"), {"--slaves", "2", "--shares", "1,1", "--steps", "20"}));
  EXPECT_EQ(bad.wait(60s), kFailure);
  EXPECT_THAT(bad.output(), AllOf(HasSubstr("Fake GPU"), HasSubstr("CL_DEVICE_NOT_AVAILABLE")));
  EXPECT_EQ(train.wait(60s), kSlaveLost);
  EXPECT_THAT(train.output(),
              AllOf(HasSubstr("slave bad failed"), HasSubstr("CL_DEVICE_NOT_AVAILABLE"), HasSubstr("--resume")));
  EXPECT_TRUE(std::filesystem::exists(folder("run") + "/checkpoint.safetensors"));
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

TEST_F(Programs, KilledSlaveEndsTheRunCleanlyAndItGoesOn) {
  Process a = slave("a");
  {
    Process b = slave("b");
    Process train = master(training(folder("run"), {"--slaves", "2", "--epochs", "50", "--format", "json"}));
    ASSERT_TRUE(train.wait_for("\"event\":\"step\"", 60s)) << train.output();
    b.signal(SIGKILL);
    ASSERT_EQ(train.wait(20s), kSlaveLost) << train.output();
    EXPECT_THAT(train.output(), AllOf(HasSubstr("slave b is gone"), HasSubstr("--resume")));
  }
  EXPECT_TRUE(std::filesystem::exists(folder("run") + "/checkpoint.safetensors"));
  EXPECT_TRUE(a.running()) << "the other slave waits for the next run: " << a.output();
  Process again = slave("c");
  Process resumed = master(training(folder("run"), {"--slaves", "2", "--epochs", "50", "--steps", "130", "--resume"}));
  ASSERT_EQ(resumed.wait(100s), kSuccess) << resumed.output();
}

TEST_F(Programs, SuspendedSlaveIsNoticed) {
  Process a = slave("a");
  Process b = slave("b");
  Process train = master(training(folder("run"), {"--slaves", "2", "--epochs", "50", "--format", "json"}));
  ASSERT_TRUE(train.wait_for("\"step\":20,", 60s)) << train.output();
  b.signal(SIGSTOP);
  ASSERT_EQ(train.wait(20s), kSlaveLost) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("slave b"));
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
  Process both({kSlave, endpoint_, "--name", "both", "--threads", "1", "--device", "cpu,check:eigen,reference"});
  Process train = master(training(folder("run"), {"--slaves", "2", "--shares", "1,1", "--steps", "3"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output() << both.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("both-cpu"), HasSubstr("both-check:eigen,reference")));
  both.signal(SIGTERM);
  EXPECT_EQ(both.wait(10s), kSuccess) << both.output();
}

TEST_F(Programs, ADeviceThatFailsLeavesTheOthersToWork) {
  Process slaves({kSlave, endpoint_, "--name", "both", "--threads", "1", "--device", "cpu,warp"});
  ASSERT_TRUE(slaves.wait_for("device warp ended with exit code 1; the others go on", 20s)) << slaves.output();
  Process train = master(training(folder("run"), {"--slaves", "1", "--steps", "3"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output() << slaves.output();
  slaves.signal(SIGINT);
  EXPECT_EQ(slaves.wait(10s), kFailure) << slaves.output();
}

TEST_F(Programs, MasterSaysWhatItWaitsFor) {
  Process train = master(training(folder("run"), {"--slaves", "2"}));
  ASSERT_TRUE(train.wait_for("0 of 2 slaves; on each further machine run: convoy-slave " + endpoint_, 20s))
      << train.output();
  Process a = slave("a");
  ASSERT_TRUE(train.wait_for("1 of 2 slaves: a (", 20s)) << train.output();
  Process same_name = slave("a");
  ASSERT_TRUE(same_name.wait_for("the name 'a' is taken", 20s)) << same_name.output();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(10s), kInterrupted) << train.output();
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
  Process plan = master({"plan", kSource + "/nets/glyphs.yaml", "--slaves", "1", "--listen", endpoint_});
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
                            exchange, "--micro-batch", "10", "--steps", "10", "--listen", endpoint_, "--out",
                            folder(exchange), "--threads", "1"});
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
                          "--out", folder("run"), "--threads", "1"});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("plan: thesis, fp32; a step takes about"));
  EXPECT_THAT(file_bytes(folder("run") + "/plan.json"), HasSubstr("\"exchange\": \"thesis\""));
  Process plan = master({"plan", net, "--calibration", folder("run") + "/calibration.json"});
  ASSERT_EQ(plan.wait(60s), kSuccess) << plan.output();
  EXPECT_THAT(plan.output(), AllOf(HasSubstr("a step takes about"), HasSubstr("other plans"), HasSubstr("Mbit/s")));
  Process other = master({"plan", net, "--batch", "7", "--calibration", folder("run") + "/calibration.json"});
  EXPECT_EQ(other.wait(60s), kFailure);
  EXPECT_THAT(other.output(), HasSubstr("calibration.json: its times are of batches of"));
}

TEST_F(Programs, ASlaveThatDiesInARingEndsTheRunAndItIsNamed) {
  Process a = slave("a");
  Process train =
      master({"train", kSource + "/nets/glyphs.yaml", "--slaves", "2", "--shares", "1,1", "--exchange", "ring",
              "--epochs", "50", "--listen", endpoint_, "--out", folder("run"), "--threads", "1", "--format", "json"});
  {
    Process b = slave("b");
    ASSERT_TRUE(train.wait_for("\"step\":20,", 60s)) << train.output();
    b.signal(SIGKILL);
    b.wait(10s);
  }
  ASSERT_EQ(train.wait(60s), kSlaveLost) << train.output();
  EXPECT_THAT(train.output(), testing::AnyOf(HasSubstr("slave b is gone"), HasSubstr("the link to slave b broke")));
}

// ---- bad input -----------------------------------------------------------------------------------------------------

struct BadCommand {
  std::string name;
  std::string program;
  std::vector<std::string> arguments;
  int code;
  std::string expected;
};

void PrintTo(const BadCommand& bad, std::ostream* out) { *out << bad.name; }

class BadCommands : public testing::TestWithParam<BadCommand> {};

TEST_P(BadCommands, EndWithAClearError) {
  const BadCommand& bad = GetParam();
  const TemporaryFolder scratch;
  std::vector<std::string> command{bad.program};
  for (std::string word : bad.arguments) {
    if (const auto at = word.find("NETS"); at != std::string::npos) word.replace(at, 4, kSource + "/nets");
    if (const auto at = word.find("SCRATCH"); at != std::string::npos) word.replace(at, 7, scratch.path());
    command.push_back(word);
  }
  Process process(command);
  EXPECT_EQ(process.wait(30s), bad.code) << process.output();
  EXPECT_THAT(process.output(), HasSubstr(bad.expected));
}

const std::string kGlyphs = "NETS/glyphs.yaml";

INSTANTIATE_TEST_SUITE_P(
    Table, BadCommands,
    testing::Values(
        BadCommand{"NoCommand", kMaster, {}, kUsage, "subcommand"},
        BadCommand{"UnknownCommand", kMaster, {"fly"}, kUsage, "subcommand"},
        BadCommand{"NoNet", kMaster, {"train"}, kUsage, "net"},
        BadCommand{"UnknownOption", kMaster, {"train", kGlyphs, "--fast"}, kUsage, "--fast"},
        BadCommand{"NegativeSlaves", kMaster, {"train", kGlyphs, "--slaves", "-1"}, kUsage, "--slaves"},
        BadCommand{"ZeroBatch", kMaster, {"train", kGlyphs, "--batch", "0"}, kUsage, "--batch"},
        BadCommand{"ZeroEpochs", kMaster, {"train", kGlyphs, "--epochs", "0"}, kUsage, "--epochs"},
        BadCommand{"Format", kMaster, {"train", kGlyphs, "--format", "xml"}, kUsage, "--format"},
        BadCommand{"SeedText", kMaster, {"train", kGlyphs, "--seed", "abc"}, kUsage, "--seed"},
        BadCommand{"MissingNet", kMaster, {"train", "SCRATCH/no.yaml"}, kFailure, "no.yaml"},
        BadCommand{"BadOverride", kMaster, {"train", kGlyphs, "--set", "conv9.filters=3"}, kFailure, "conv9"},
        BadCommand{"MissingData", kMaster, {"train", kGlyphs, "--data", "SCRATCH/none"}, kFailure, "none"},
        BadCommand{"EmptyData", kMaster, {"train", kGlyphs, "--data", "SCRATCH"}, kFailure, "data_batch"},
        BadCommand{"WrongData", kMaster, {"train", "NETS/cifar10-50-500.yaml", "--data", "glyphs"}, kFailure, "32"},
        BadCommand{"Device", kMaster, {"train", kGlyphs, "--device", "warp"}, kFailure, "unknown device 'warp'"},
        BadCommand{"Listen", kMaster, {"train", kGlyphs, "--slaves", "1", "--listen", "nowhere"}, kFailure, "nowhere"},
        BadCommand{"ResumeNowhere", kMaster, {"train", kGlyphs, "--resume"}, kFailure, "--out"},
        BadCommand{"ResumeEmpty", kMaster, {"train", kGlyphs, "--resume", "--out", "SCRATCH"}, kFailure, "checkpoint"},
        BadCommand{"OutUnwritable", kMaster, {"train", kGlyphs, "--out", "/proc/none/run"}, kFailure, "/proc/none/run"},
        BadCommand{"ThesisRing",
                   kMaster,
                   {"train", kGlyphs, "--slaves", "1", "--plan", "thesis", "--exchange", "ring"},
                   kFailure,
                   "--plan thesis"},
        BadCommand{"Calibration",
                   kMaster,
                   {"plan", kGlyphs, "--calibration", "NETS/glyphs.yaml"},
                   kFailure,
                   "not a calibration"},
        BadCommand{"MissingWeights",
                   kMaster,
                   {"test", kGlyphs, "--weights", "SCRATCH/w.safetensors"},
                   kFailure,
                   "w.safetensors"},
        BadCommand{"TestWithoutWeights", kMaster, {"test", kGlyphs}, kUsage, "--weights"},
        BadCommand{"BatchTooLarge", kMaster, {"train", kGlyphs, "--batch", "60000"}, kFailure, "60000"},
        BadCommand{"SlaveNoAddress", kSlave, {}, kFailure, "no master's address"},
        BadCommand{"SlaveBadAddress", kSlave, {"nonsense"}, kFailure, "nonsense"},
        BadCommand{"SlaveDevice", kSlave, {"tcp://127.0.0.1:1", "--device", "warp"}, kFailure, "unknown device 'warp'"},
        BadCommand{"SlaveDevices", kSlave, {"tcp://127.0.0.1:1", "--device", "cpu,"}, kFailure, "a name is missing"},
        BadCommand{"SlaveCheck",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--device", "check:cpu"},
                   kFailure,
                   "expected check:DEVICE,DEVICE"},
        BadCommand{"SlaveMemory",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--memory", "lots"},
                   kFailure,
                   "'lots' is no amount of memory"},
        BadCommand{"SlaveThreads", kSlave, {"tcp://127.0.0.1:1", "--threads", "many"}, kUsage, "--threads"}),
    [](const auto& info) { return info.param.name; });

TEST(SlaveProgram, ListsItsDevices) {
  Process list({kSlave, "--list-devices"});
  EXPECT_EQ(list.wait(100s), kSuccess);  // an OpenCL driver may compile its kernels first
  EXPECT_THAT(list.output(), AllOf(HasSubstr("cpu"), HasSubstr("reference"), HasSubstr("eigen")));
}

}  // namespace
}  // namespace convoy
