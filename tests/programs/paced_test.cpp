// Runs the programs on devices that compute nothing.

#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// All devices are as fast as no machine is, so that steps take no longer than their messages.
const std::string kPaced = "paced:1e6";

TEST_F(Programs, ARunOnPacedDevicesIsMarkedAndSavesNoWeights) {
  Process a = slave("a", {"--device", kPaced, "--once"});
  Process b = slave("b", {"--device", kPaced, "--once"});
  Process train = master(training(folder("run"), {"--device", kPaced, "--slaves", "2", "--epochs", "1"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  EXPECT_EQ(a.wait(20s), kSuccess) << a.output();
  EXPECT_EQ(b.wait(20s), kSuccess) << b.output();
  EXPECT_THAT(a.output(), HasSubstr("paced at 1e+06 GFLOP/s: it computes nothing"));
  EXPECT_THAT(train.output(), AllOf(HasSubstr("paced:1e6: this run is a measurement"),
                                    HasSubstr("paced:1e6: nothing was computed, and no weights were saved")));
  EXPECT_THAT(file_bytes(folder("run") + "/results.csv"), AllOf(HasSubstr(",paced\n"), HasSubstr(",paced:1e6\n")));
  EXPECT_THAT(file_bytes(folder("run") + "/events.jsonl"), HasSubstr("\"event\":\"step\""));
  EXPECT_THAT(file_bytes(folder("run") + "/config.yaml"),
              HasSubstr("# paced:1e6: a measurement; nothing was computed"));
  EXPECT_THAT(file_bytes(folder("run") + "/plan.json"), HasSubstr("\"stages\""));
  for (const auto& file : std::filesystem::directory_iterator(folder("run"))) {
    EXPECT_NE(file.path().extension(), ".safetensors") << file.path();
  }

  // The calibration of the run paces another one, and makes the same plan without any machine.
  const std::string calibration = folder("run") + "/calibration.json";
  Process plan = master({"plan", kSource + "/nets/glyphs.yaml", "--set", "conv1.filters=6", "--set", "conv2.filters=9",
                         "--batch", "50", "--calibration", calibration, "--exchange", "star"});
  EXPECT_EQ(plan.wait(60s), kSuccess) << plan.output();
  EXPECT_THAT(plan.output(), HasSubstr("a step takes about"));
  Process again = master(training(folder("again"), {"--device", "paced:" + calibration + "#b", "--steps", "2"}));
  EXPECT_EQ(again.wait(60s), kSuccess) << again.output();
  EXPECT_THAT(again.output(), AllOf(HasSubstr("#b: nothing was computed"), Not(HasSubstr("a checkpoint was written"))));
}

TEST_F(Programs, ModelsTravelBothWaysOnPacedDevicesThoughTheirWeightsNeverChange) {
  Process a = slave("a", {"--device", kPaced, "--once"});
  Process b = slave("b", {"--device", kPaced, "--once"});
  Process train = master(training(folder("run"), {"--device", kPaced, "--slaves", "2", "--sync", "join", "--replicas",
                                                  "2", "--sync-every", "2", "--steps", "7"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  double sent = 0.0;  // by slaves
  double received = 0.0;
  std::istringstream lines(file_bytes(folder("run") + "/events.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json event = nlohmann::json::parse(line);
    if (event["event"] != "step" || event["step"] <= 2) continue;  // the weights are loaded in the first step
    for (const nlohmann::json& member : event["times"]) {
      sent += member["states_sent"].get<double>();
      received += member["states_received"].get<double>();
    }
  }
  EXPECT_GT(sent, 0.0);
  EXPECT_GT(received, 0.8 * sent);  // the last models are collected, and sent to nobody
}

TEST_F(Programs, ImagesTravelToASlaveOnce) {
  for (const std::string scheme : {"split", "join", "none"}) {
    Process a = slave("a", {"--device", kPaced, "--once"});
    Process train = master(training(
        folder(scheme), {"--device", kPaced, "--slaves", "1", "--epochs", "2", "--sync", scheme, "--images-once"}));
    ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
    std::map<int, double> received;  // by the slave, in each epoch
    std::istringstream lines(file_bytes(folder(scheme) + "/events.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      if (event["event"] == "step") received[event["epoch"]] += event["times"][0]["received"].get<double>();
    }
    EXPECT_EQ(received[1] - received[2], 6000.0 * 28.0 * 28.0) << scheme;
  }
}

TEST_F(Programs, APacedDeviceRefusesWhatNeedsValues) {
  const std::vector<std::vector<std::string>> wishes{{"--weights", "w.safetensors"},
                                                     {"--checkpoint-seconds", "10"},
                                                     {"--snapshot-seconds", "10"},
                                                     {"--slaves", "1", "--verify", "10"}};
  for (std::vector<std::string> wish : wishes) {
    wish.insert(wish.end(), {"--device", kPaced});
    Process train = master(training(folder("run"), wish));
    EXPECT_EQ(train.wait(20s), kFailure) << train.output();
    EXPECT_THAT(train.output(), AllOf(HasSubstr("has no meaning with --device paced:1e6"),
                                      HasSubstr("saves no weights, checkpoints or snapshots")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder("run")));
  Process train = master(training(folder("run"), {"--device", kPaced, "--steps", "1"}));
  EXPECT_EQ(train.wait(20s), kSuccess) << train.output();
  Process resume = master({"train", "--resume", folder("run")});
  EXPECT_EQ(resume.wait(20s), kFailure) << resume.output();
  EXPECT_THAT(resume.output(), HasSubstr("--resume has no meaning with --device paced:1e6"));
  for (const std::string command : {"test", "predict"}) {
    std::vector<std::string> words{command, kSource + "/nets/glyphs.yaml", "--weights", "w.safetensors", "--device",
                                   kPaced};
    if (command == "predict") words.emplace_back("image.png");
    Process process = master(words);
    EXPECT_EQ(process.wait(20s), kFailure) << process.output();
    EXPECT_THAT(process.output(), HasSubstr("so there is nothing to " + command));
  }
}

TEST_F(Programs, APacedRunRefusesSlavesThatCompute) {
  Process computing = slave("computing");
  Process train = master(training(folder("run"), {"--device", kPaced, "--slaves", "1", "--steps", "2"}));
  EXPECT_TRUE(computing.wait_for("this slave's device computes", 60s)) << computing.output();
  Process paced = slave("paced", {"--device", kPaced, "--once"});
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output();
}

/// Without a snapshot there is no step to which the run could go back.
TEST_F(Programs, APacedRunEndsWhenASlaveIsLost) {
  Process a = slave("a", {"--device", kPaced});
  Process b = slave("b", {"--device", kPaced});
  Process train = master(training(folder("run"), {"--device", kPaced, "--slaves", "2", "--epochs", "1000"}));
  ASSERT_TRUE(train.wait_for("step 1/", 60s)) << train.output();
  a.signal(SIGKILL);
  EXPECT_EQ(train.wait(60s), kSlaveLost) << train.output();
  EXPECT_THAT(train.output(), AllOf(HasSubstr("slave a"), HasSubstr("has no checkpoint to go on from")));
}

}  // namespace
}  // namespace convoy
