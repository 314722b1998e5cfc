// Tests wrong command lines. Each must end with its exit code and an error that names the fault.

#include <gmock/gmock.h>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

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
        BadCommand{"NetAfterOverride", kMaster, {"train", "--set", "conv9.filters=3", kGlyphs}, kFailure, "conv9"},
        BadCommand{"MissingData", kMaster, {"train", kGlyphs, "--data", "SCRATCH/none"}, kFailure, "none"},
        BadCommand{"EmptyData", kMaster, {"train", kGlyphs, "--data", "SCRATCH"}, kFailure, "data_batch"},
        BadCommand{"WrongData", kMaster, {"train", "NETS/cifar10-50-500.yaml", "--data", "glyphs"}, kFailure, "32"},
        BadCommand{"Device", kMaster, {"train", kGlyphs, "--device", "warp"}, kFailure, "unknown device 'warp'"},
        BadCommand{"BranchesOverSlaves",
                   kMaster,
                   {"train", "NETS/resnet20.yaml", "--data", "glyphs", "--set", "input.channels=1", "--set",
                    "input.height=28", "--set", "input.width=28", "--slaves", "1", "--insecure", "--plan", "thesis"},
                   kFailure,
                   "has branches"},
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
        BadCommand{"CalibrationOfAFixedPlan",
                   kMaster,
                   {"plan", kGlyphs, "--calibration", "NETS/glyphs.yaml", "--plan", "some.json"},
                   kFailure,
                   "leave out --plan some.json"},
        BadCommand{"MissingWeights",
                   kMaster,
                   {"test", kGlyphs, "--weights", "SCRATCH/w.safetensors"},
                   kFailure,
                   "w.safetensors"},
        BadCommand{"TestWithoutWeights", kMaster, {"test", kGlyphs}, kUsage, "--weights"},
        BadCommand{"BatchTooLarge", kMaster, {"train", kGlyphs, "--batch", "60000"}, kFailure, "60000"},
        BadCommand{"SweepFilters",
                   kBench,
                   {"sweep", "--net", kGlyphs, "--filters", "1:2:3", "--out", "SCRATCH/sweep"},
                   kFailure,
                   "has 2 convolutions"},
        BadCommand{"SweepOut", kBench, {"sweep", "--net", kGlyphs, "--out", "/proc/none"}, kFailure, "/proc/none"},
        BadCommand{"SweepBandwidth", kBench, {"sweep", "--really", "--bandwidth", "10"}, kUsage, "--bandwidth"},
        BadCommand{"SimulateFromNowhere",
                   kBench,
                   {"simulate", "--net", kGlyphs, "--from-run", "SCRATCH"},
                   kFailure,
                   "calibration.json"},
        BadCommand{"SlaveNoAddress", kSlave, {"--insecure"}, kFailure, "no master's address is given"},
        BadCommand{"SlaveBadAddress", kSlave, {"nonsense", "--insecure"}, kFailure, "nonsense"},
        BadCommand{"SlaveNoKey", kSlave, {"tcp://127.0.0.1:1"}, kFailure, "paste the line that the master prints"},
        BadCommand{"SlaveKeyAndNone",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--insecure", "--key", "abc"},
                   kFailure,
                   "exclude each other"},
        BadCommand{
            "SlaveBadKey", kSlave, {"tcp://127.0.0.1:1", "--key", "abc"}, kFailure, "the 128 hexadecimal digits"},
        BadCommand{"NoKeys", kMaster, {"key", "--keys", "NETS/glyphs.yaml"}, kFailure, "glyphs.yaml: "},
        BadCommand{"KeysInNoFolder", kMaster, {"key", "--keys", "/proc/no/keys"}, kFailure, "--keys"},
        BadCommand{"SlaveDevice",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--insecure", "--device", "warp"},
                   kFailure,
                   "unknown device 'warp'"},
        BadCommand{"SlaveDevices",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--insecure", "--device", "cpu,"},
                   kFailure,
                   "a name is missing"},
        BadCommand{"SlaveCheck",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--insecure", "--device", "check:cpu"},
                   kFailure,
                   "expected check:DEVICE,DEVICE"},
        BadCommand{"SlaveMemory",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--insecure", "--memory", "lots"},
                   kFailure,
                   "'lots' is not an amount of memory"},
        BadCommand{
            "SlaveThreads", kSlave, {"tcp://127.0.0.1:1", "--insecure", "--threads", "many"}, kUsage, "--threads"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
