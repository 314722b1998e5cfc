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
        BadCommand{"NoCommand", kMaster, {}, kUsage, "the commands are: train, search, jobs, test, plan"},
        BadCommand{"UnknownCommand", kMaster, {"fly"}, kUsage, "unknown command 'fly'"},
        BadCommand{"NoNet", kMaster, {"train"}, kUsage, "train needs NET, a net file, or --resume FOLDER"},
        BadCommand{"ExportWithoutAName",
                   kMaster,
                   {"ensemble", "a", "b", "--export", ""},
                   kUsage,
                   "--export: the name is empty; give the name of the ONNX file"},
        BadCommand{"UnknownOption", kMaster, {"train", kGlyphs, "--fast"}, kUsage, "--fast"},
        BadCommand{"MistypedOption", kMaster, {"train", kGlyphs, "--slave", "2"}, kUsage, "did you mean --slaves?"},
        BadCommand{"MistypedCommand", kMaster, {"tarin", kGlyphs}, kUsage, "did you mean train?"},
        BadCommand{"MistypedBench", kBench, {"sweeep"}, kUsage, "did you mean sweep?"},
        BadCommand{"MistypedSlave", kSlave, {"tcp://127.0.0.1:1", "--nmae", "a"}, kUsage, "did you mean --name?"},
        BadCommand{"SlaveName",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--insecure", "--name", "a\x1b[2J"},
                   kFailure,
                   "the name 'a\\x1b[2J' has characters that cannot be printed"},
        BadCommand{"SlaveLongName",
                   kSlave,
                   {"tcp://127.0.0.1:1", "--insecure", "--name", std::string(65, 'n')},
                   kFailure,
                   "has 65 bytes, and 64 are the most"},
        BadCommand{"SlaveTransport", kSlave, {"ipc:///tmp/convoy", "--insecure"}, kFailure, "over TCP only"},
        BadCommand{"SlaveZone", kSlave, {"tcp://[fe80::1]:5570", "--insecure"}, kFailure, "[fe80::10%eth0]:5570"},
        BadCommand{"SlavePort", kSlave, {"tcp://127.0.0.1:99999", "--insecure"}, kFailure, "from 1 to 65535"},
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
        BadCommand{"Listen",
                   kMaster,
                   {"train", kGlyphs, "--slaves", "1", "--listen", "nowhere"},
                   kFailure,
                   "does not begin with tcp://"},
        BadCommand{"ResumeNowhere", kMaster, {"train", kGlyphs, "--resume"}, kFailure, "--out"},
        BadCommand{"ResumeEmpty",
                   kMaster,
                   {"train", kGlyphs, "--resume", "--out", "SCRATCH"},
                   kFailure,
                   "has no run; leave out --resume"},
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
                   "not a calibration: it is not JSON from byte 1 on"},
        BadCommand{"CalibrationOfAFixedPlan",
                   kMaster,
                   {"plan", kGlyphs, "--calibration", "NETS/glyphs.yaml", "--plan", "some.json"},
                   kFailure,
                   "leave out --plan some.json"},
        BadCommand{"CalibrationWithKeys",
                   kMaster,
                   {"plan", kGlyphs, "--calibration", "c.json", "--keys", "k"},
                   kUsage,
                   "--keys has no effect with --calibration"},
        BadCommand{"MachinesOfAFixedPlan",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "4x240@1000", "--plan", "some.json"},
                   kFailure,
                   "--machines makes a plan; leave out --plan some.json"},
        BadCommand{"MachinesWithoutALink",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "4x240"},
                   kUsage,
                   "\"4x240\" describes no machines; expected COUNTxGFLOPS@MBITS"},
        BadCommand{"MachinesWithHalfTheirWatts",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "4x240@1000/5:25"},
                   kUsage,
                   "\"4x240@1000/5:25\": \"5:25\" is no power: it has 2 numbers"},
        BadCommand{"ObjectiveWithoutWatts",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "240@1000/5:25:8,60@1000", "--objective", "edp"},
                   kFailure,
                   "--objective edp: the watts of slave2 are not known; give --assume-watts"},
        BadCommand{"UnknownObjective",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "240@1000", "--objective", "power"},
                   kUsage,
                   "--objective"},
        BadCommand{"ObjectiveAlone",
                   kMaster,
                   {"train", kGlyphs, "--objective", "energy", "--assume-watts", "5"},
                   kUsage,
                   "--objective needs --slaves"},
        BadCommand{"NegativeAssumedWatts",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "240@1000", "--assume-watts", "-1"},
                   kUsage,
                   "--assume-watts"},
        BadCommand{"PowerFromNoCalibration",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "240@1000", "--power-from", "NETS/glyphs.yaml"},
                   kFailure,
                   "glyphs.yaml: the file is not a calibration"},
        BadCommand{"SimulatedWatts",
                   kBench,
                   {"simulate", "--net", kGlyphs, "--watts", "5:25:8,9"},
                   kUsage,
                   "\"9\" is no power: it has 1 number"},
        BadCommand{"SimulatedObjective",
                   kBench,
                   {"simulate", "--net", kGlyphs, "--objective", "energy", "--watts", "5:25:8"},
                   kFailure,
                   "the watts of master are not known"},
        BadCommand{"WattsOfARun",
                   kBench,
                   {"simulate", "--net", kGlyphs, "--from-run", "SCRATCH", "--watts", "5:25:8"},
                   kUsage,
                   "exclude"},
        BadCommand{"MachinesAndSlaves",
                   kMaster,
                   {"plan", kGlyphs, "--machines", "4x240@1000", "--slaves", "2"},
                   kUsage,
                   "--slaves and --machines exclude each other"},
        BadCommand{"FieldsWithoutSet",
                   kMaster,
                   {"predict", kGlyphs, "--weights", "w", "a.jpg", "--set", "input.mean=0", "input.deviation=1"},
                   kUsage,
                   "write --set before each field"},
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
                   "has only 2 convolutions"},
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
        BadCommand{"NoKeys", kMaster, {"key", "--keys", "NETS/glyphs.yaml"}, kFailure, "not a key file of Convoy"},
        BadCommand{
            "KeysAreAFolder", kMaster, {"key", "--keys", "SCRATCH"}, kFailure, "this is a folder, not a key file"},
        BadCommand{"KeysOfNoMaster", kMaster, {"key", "--keys", "SCRATCH/typo"}, kFailure, "there is no such key file"},
        BadCommand{"KeysInNoFolder", kMaster, {"key", "--make", "--keys", "/proc/no/keys"}, kFailure, "--keys"},
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
                   kUsage,
                   "'lots' is not an amount of memory"},
        BadCommand{
            "SlaveThreads", kSlave, {"tcp://127.0.0.1:1", "--insecure", "--threads", "many"}, kUsage, "--threads"}),
    [](const auto& info) { return info.param.name; });

/// With slaves that never come: what cannot work is refused before anybody is waited for.
BadCommand impossible(const std::string& name, std::vector<std::string> options, int code,
                      const std::string& expected) {
  std::vector<std::string> words{"train", kGlyphs, "--slaves", "2", "--insecure", "--out", "SCRATCH/run"};
  words.insert(words.end(), options.begin(), options.end());
  return {name, kMaster, words, code, expected};
}

INSTANTIATE_TEST_SUITE_P(
    BeforeAnybodyIsWaitedFor, BadCommands,
    testing::Values(
        impossible("Transport", {"--listen", "ipc:///tmp/convoy"}, kFailure, "over TCP only"),
        impossible("Interface", {"--listen", "tcp://[fe80::1%nosuch]:5570"}, kFailure, "no network interface nosuch"),
        impossible("Port", {"--listen", "tcp://*:99999"}, kFailure, "not a number from 0 to 65535"),
        impossible("NoHost", {"--listen", "tcp://nosuch.invalid:5570"}, kFailure, "does not resolve"),
        impossible("NotOurs", {"--listen", "tcp://198.51.100.7:5570"}, kFailure, "not an address of this machine"),
        impossible("NoPlan", {"--plan", "NETS/glyphs.yaml"}, kFailure, "not a plan"),
        impossible("NoPlanFile", {"--plan", "SCRATCH/plan.json"}, kFailure, "plan.json: the file is missing"),
        impossible("VerifyInARing", {"--exchange", "ring", "--verify", "5"}, kFailure,
                   "--verify needs the exchange star"),
        impossible("ObjectiveOfUnknownSlaves", {"--objective", "energy"}, kFailure,
                   "--objective energy: the watts of slaves are not known before a run; give --power-from"),
        impossible("ObjectiveOfFixedShares", {"--objective", "edp", "--assume-watts", "5", "--shares", "1,2"}, kFailure,
                   "--objective edp chooses a plan, but --shares fixes it"),
        impossible("PowerFromNowhere", {"--power-from", "SCRATCH/none.json"}, kFailure, "none.json"),
        impossible("LayoutOfAPlan", {"--layout", "samples", "--plan", "some.json"}, kFailure,
                   "leave out --layout samples"),
        impossible("LayoutOfAShare", {"--layout", "samples", "--shares", "1,0"}, kFailure, "one member would get all"),
        impossible("Dense", {"--dense", "everyone"}, kUsage, "everyone"),
        impossible("DenseOfASingleChannel", {"--dense", "members", "--set", "conv2.filters=1"}, kFailure,
                   "layer dense1 reads a single channel; give --dense auto"),
        impossible("CachedMapsThatChange", {"--cache-maps", "1G"}, kFailure, "but layer conv1 is not frozen"),
        impossible("CachedMapsOfSharedDenseLayers",
                   {"--set", "conv*.freeze=true", "--cache-maps", "1G", "--dense", "members"}, kFailure,
                   "--dense members cannot be combined with --cache-maps"),
        impossible("CachedMapsOfReplicas", {"--set", "conv*.freeze=true", "--cache-maps", "1G", "--sync", "join"},
                   kFailure, "--cache-maps cannot be combined with --slaves and --sync join"),
        impossible("DenseOfReplicas", {"--dense", "members", "--sync", "join"}, kFailure,
                   "--dense members cannot be combined with --sync join or none"),
        impossible("ShareText", {"--shares", "1,x"}, kFailure, "--shares '1,x': expected 2 numbers"),
        impossible("ShareCount", {"--shares", "1,2,3"}, kFailure, "expected 2 numbers"),
        impossible("LeastSlaves", {"--least-slaves", "3"}, kFailure, "--least-slaves 3 is more than"),
        impossible("ReplicasThatShareABatch", {"--replicas", "2"}, kFailure, "--replicas needs --sync join or none"),
        impossible("BackupOfNoStep", {"--sync", "none", "--backup", "1"}, kFailure, "--backup needs --sync join"),
        impossible("BackupOfAll", {"--sync", "join", "--backup", "2"}, kFailure,
                   "--backup 2 would drop the gradients of all 2 replicas"),
        impossible("StalenessOfJoin", {"--sync", "join", "--staleness", "3"}, kFailure,
                   "--staleness needs --sync none"),
        impossible("LocalStepsOfNone", {"--sync", "none", "--sync-every", "4"}, kFailure,
                   "--sync-every needs --sync join"),
        impossible("LocalStepsWithBackups", {"--sync", "join", "--sync-every", "4", "--backup", "1"}, kFailure,
                   "--backup cannot be combined with --sync-every"),
        impossible("LocalStepsAtAScaledRate", {"--sync", "join", "--sync-every", "4", "--scale-rate"}, kFailure,
                   "--scale-rate cannot be combined with --sync-every"),
        impossible("LocalStepsThatClip", {"--sync", "join", "--sync-every", "4", "--set", "training.clip=1"}, kFailure,
                   "training.clip cannot be combined with --sync-every"),
        impossible("LocalStepsWithoutASlaveEach", {"--sync", "join", "--sync-every", "4", "--replicas", "3"}, kFailure,
                   "--sync-every needs a slave for each replica"),
        impossible("StepsThatGrowFromNothing", {"--sync-up-to", "8"}, kFailure, "--sync-up-to needs --sync-every"),
        impossible("LocalStepsThatShrink", {"--sync", "join", "--sync-every", "8", "--sync-up-to", "4"}, kFailure,
                   "--sync-up-to 4 is below --sync-every 8"),
        impossible("OuterMomentumWithoutAverages", {"--sync", "join", "--outer-momentum", "0.9"}, kFailure,
                   "--outer-momentum needs --sync-every"),
        impossible("OuterRateWithoutAverages", {"--outer-rate", "0.7"}, kFailure, "--outer-rate needs --sync-every"),
        impossible("OuterMomentumOfOne", {"--sync", "join", "--sync-every", "4", "--outer-momentum", "1"}, kUsage,
                   "'1' is not a number from 0 to 0.999"),
        impossible("ServerOfNobody", {"--server", "central"}, kFailure, "--server needs --sync join or none"),
        impossible("SemaphoreOfNobody", {"--semaphore"}, kFailure, "--semaphore needs --sync join or none"),
        impossible("NoSemaphoreOfNobody", {"--no-semaphore"}, kFailure, "--semaphore needs --sync join or none"),
        impossible("DistributedServerOfNone", {"--sync", "none", "--server", "distributed"}, kFailure,
                   "--server distributed cannot be combined with --sync none"),
        impossible("DistributedServerWithBackups", {"--sync", "join", "--server", "distributed", "--backup", "1"},
                   kFailure, "--backup cannot be combined with --server distributed"),
        impossible("DistributedServerInTurns", {"--sync", "join", "--server", "distributed", "--semaphore"}, kFailure,
                   "--semaphore cannot be combined with --server distributed"),
        impossible("RateOfNone", {"--sync", "none", "--scale-rate"}, kFailure, "--scale-rate needs --sync join"),
        impossible("SharesOfReplicas", {"--sync", "join", "--shares", "1,1"}, kFailure,
                   "--shares cannot be combined with --sync join or none: slaves are grouped by their measured speeds"),
        impossible("VerifiedReplicas", {"--sync", "none", "--verify", "5"}, kFailure, "--verify cannot be combined"),
        impossible("Sync", {"--sync", "sometimes"}, kUsage, "sometimes"),
        impossible("MicroBatch", {"--batch", "50", "--micro-batch", "16"}, kFailure,
                   "the batch of 50 is not divisible by it; take for example 10"),
        impossible("Memory", {"--memory", "lots"}, kUsage, "'lots' is not an amount of memory"),
        impossible("Seed", {"--seed", "-1"}, kUsage, "--seed: '-1' is not a whole number"),
        impossible("Keys", {"--keys", "SCRATCH"}, kUsage, "exclude each other")),
    [](const auto& info) { return info.param.name; });

/// Options that mean nothing without slaves.
class NeedSlaves : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(NeedSlaves, AndSaySo) {
  for (const std::string command : {"train", "plan"}) {
    if (command == "plan" && GetParam().front() == "--memory") continue;  // of the share that it plans
    if (command == "plan" && GetParam().front() == "--verify") continue;  // it trains nothing
    std::vector<std::string> words{kMaster, command, kSource + "/nets/glyphs.yaml"};
    words.insert(words.end(), GetParam().begin(), GetParam().end());
    Process process(words);
    EXPECT_EQ(process.wait(30s), kUsage) << process.output();
    EXPECT_THAT(process.output(), HasSubstr(GetParam().front() + " needs --slaves"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, NeedSlaves,
    testing::Values(std::vector<std::string>{"--least-slaves", "1"}, std::vector<std::string>{"--verify", "5"},
                    std::vector<std::string>{"--listen", "tcp://*:5570"}, std::vector<std::string>{"--insecure"},
                    std::vector<std::string>{"--keys", "keys.json"}, std::vector<std::string>{"--master-share"},
                    std::vector<std::string>{"--memory", "1GiB"}, std::vector<std::string>{"--shares", "1"},
                    std::vector<std::string>{"--wire", "bf16"}, std::vector<std::string>{"--exchange", "ring"},
                    std::vector<std::string>{"--layout", "samples"}, std::vector<std::string>{"--micro-batch", "10"},
                    std::vector<std::string>{"--dense", "members"}, std::vector<std::string>{"--plan", "plan.json"}));

TEST(CommandLine, OfEveryProgramKnowsItsVersion) {
  for (const auto& [program, name] :
       {std::pair{kMaster, "convoy-master "}, std::pair{kSlave, "convoy-slave "}, std::pair{kBench, "convoy-bench "}}) {
    Process process({program, "--version"});
    EXPECT_EQ(process.wait(20s), kSuccess);
    EXPECT_THAT(process.output(), testing::MatchesRegex(std::string(name) + "[0-9]+\\.[0-9]+\\.[0-9]+\n"));
  }
}

/// A command that ends with an error has printed no head of a table before it.
TEST(CommandLine, TablesBeginWhenTheyHaveRows) {
  const std::string net = kSource + "/nets/glyphs.yaml";
  const TemporaryFolder scratch;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"conv", "--net", net, "--devices", "warp", "--batch", "1"},
        {"operators", "--nets", net + ",no.yaml", "--devices", "eigen", "--batch", "1", "--repeats", "1", "--format",
         "csv"},
        {"sweep", "--net", net, "--filters", "1:2:3", "--out", scratch.path() + "/sweep"},
        {"simulate", "--net", net, "--from-run", scratch.path()}}) {
    std::vector<std::string> command{kBench};
    command.insert(command.end(), words.begin(), words.end());
    Process process(command);
    EXPECT_EQ(process.wait(60s), kFailure) << words[0];
    EXPECT_THAT(process.output(), testing::MatchesRegex("convoy-bench: [^\n]*\n")) << words[0];
  }
}

TEST(CommandLine, ErrorsAreObjectsWhereJsonIsAskedFor) {
  const std::string net = kSource + "/nets/glyphs.yaml";
  for (const auto& [words, code, says] :
       {std::tuple{std::vector<std::string>{"train", net, "--slave", "2"}, kUsage, "did you mean --slaves?"},
        std::tuple{std::vector<std::string>{"train", "no\"such.yaml"}, kFailure, "no\\\"such.yaml"},
        std::tuple{std::vector<std::string>{"plan", net, "--slaves", "1", "--listen", "x"}, kFailure, "tcp://"}}) {
    std::vector<std::string> command{"/bin/sh", "-c", "\"$@\" 2>/dev/null", "sh", kMaster};
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), {"--format", "json"});
    Process process(command);
    EXPECT_EQ(process.wait(20s), code) << process.output();
    EXPECT_THAT(process.output(), testing::StartsWith(R"({"event":"error","message":")"));
    EXPECT_THAT(process.output(), testing::AllOf(HasSubstr(says), testing::EndsWith("\"}\n")));
  }
}

}  // namespace
}  // namespace convoy
