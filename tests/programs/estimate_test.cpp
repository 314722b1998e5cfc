// Runs convoy-bench estimate and transfer as their users do.

#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "tests/programs/programs.hpp"
#include "tests/support/files.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;
using Row = std::map<std::string, std::string>;

/// Returns the rows of a CSV file by the names of its columns.
std::vector<Row> rows_of(const std::string& csv) {
  std::vector<Row> rows;
  const std::vector<std::vector<std::string>> lines = fields_of(csv);
  for (std::size_t line = 1; line < lines.size(); ++line) {
    EXPECT_EQ(lines[line].size(), lines[0].size()) << csv;
    rows.emplace_back();
    for (std::size_t i = 0; i < std::min(lines[0].size(), lines[line].size()); ++i)
      rows.back()[lines[0][i]] = lines[line][i];
  }
  return rows;
}

std::string estimate(Words words) {
  words.insert(words.begin(), {kBench, "estimate"});
  Process process(words);
  EXPECT_EQ(process.wait(100s), kSuccess) << process.output();
  return process.output();
}

TEST(EstimateProgram, PrintsARowForEachNumberOfWorkers) {
  const std::vector<Row> rows = rows_of(
      estimate({"--t-grad", "0.758", "--t-comm", "0.033", "--workers", "8", "--seeds", "3", "--output", "csv"}));
  ASSERT_EQ(rows.size(), 8U * 3 * 2);
  const Row& last = rows.back();
  EXPECT_EQ(last.at("type"), "async");
  EXPECT_EQ(last.at("server"), "distributed");
  EXPECT_EQ(last.at("workers"), "8");
  EXPECT_EQ(last.at("estimate_speedup"), "7.4337");
  for (const Row& row : rows) {
    const double low = std::stod(row.at("simulated_low_s"));
    EXPECT_LE(low, std::stod(row.at("simulated_s")));
    EXPECT_LE(std::stod(row.at("simulated_s")), std::stod(row.at("simulated_high_s")));
    EXPECT_GT(low, 0.95 * std::stod(row.at("best_s"))) << row.at("type");
    EXPECT_NEAR(std::stod(row.at("simulated_speedup")), 128 * 0.758 / std::stod(row.at("simulated_s")), 1e-3);
  }
}

TEST(EstimateProgram, ShowsTheSchemesThatAreAskedForAndComparesAll) {
  const std::string text = estimate({"--t-grad", "0.758", "--t-comm", "0.033", "--type", "sync-split", "--server",
                                     "central", "--workers", "4", "--seeds", "3", "--jitter", "0", "--latency", "0"});
  // Without jitter and latency the simulation is the worst case of the formulas: 128 (8 * 0.033 + 0.758 / 4).
  EXPECT_THAT(text, testing::ContainsRegex("sync-split +central +45.38 +51.71 +58.05 +1.88 +58.05 +58.05 +58.05"));
  EXPECT_THAT(text, Not(HasSubstr("sync-join   central")));
  EXPECT_THAT(text, HasSubstr("fastest by the simulation: "));
  EXPECT_THAT(text, testing::ContainsRegex("sync-split on a central server would take\n"
                                           "  with one more worker  .*\n"
                                           "  with twice the bandwidth +41.15 s, 1.41 times as fast\n"
                                           "  with the semaphore +45.38 s, 1.28 times as fast\n"));
  const std::string slow = estimate({"--t-grad", "0.719", "--t-comm", "5.153", "--seeds", "1"});
  EXPECT_THAT(slow, HasSubstr("so none of the schemes pays"));
}

TEST_F(Programs, AnEstimateIsDrawnForEachServer) {
  const std::string out = folder("estimate");
  EXPECT_THAT(estimate({"--t-grad", "1", "--t-comm", "0.1", "--workers", "3", "--seeds", "2", "--output", "plot",
                        "--type", "async,sync-join", "--out", out}),
              HasSubstr("estimate.csv"));
  EXPECT_EQ(rows_of(file_bytes(out + "/estimate.csv")).size(), 3U * 2 * 2);
  for (const std::string server : {"central", "distributed"}) {
    EXPECT_THAT(file_bytes(out + "/speedup-" + server + ".gnuplot"),
                AllOf(HasSubstr("async, simulated"), HasSubstr("sync-join, formula"), Not(HasSubstr("sync-split"))));
  }
}

TEST(EstimateProgram, KnowsBackupWorkersAndLocalSteps) {
  const auto seconds = [](const Words& more) {
    Words words{"--t-grad",    "1,1,3",     "--t-comm",  "0.1",      "--type",   "sync-join", "--server",
                "distributed", "--workers", "3",         "--jitter", "0",        "--latency", "0",
                "--seeds",     "1",         "--batches", "60",       "--output", "csv"};
    words.insert(words.end(), more.begin(), more.end());
    return std::stod(rows_of(estimate(words)).back().at("simulated_s"));
  };
  constexpr double kExchange = 2 * 0.1 * 2 / 3;
  EXPECT_NEAR(seconds({}), 20 * (3 + kExchange), 1e-5);
  EXPECT_LT(seconds({"--backup", "1"}), 30 * (1 + 2 * kExchange));
  EXPECT_NEAR(seconds({"--sync-every", "10"}), 2 * (30 + kExchange), 1e-5);
}

TEST(EstimateProgram, MeasuresANet) {
  // The device takes 5.8 MFLOP a forward pass and image, about three times as much in a step, at 1 GFLOP/s.
  const Words net{"--net",     kSource + "/nets/glyphs.yaml",
                  "--device",  "paced:1",
                  "--batch",   "20",
                  "--repeats", "2",
                  "--link",    "10",
                  "--seeds",   "1",
                  "--output",  "csv",
                  "--type",    "sync-join",
                  "--workers", "2"};
  const std::vector<Row> rows = rows_of(estimate(net));
  ASSERT_EQ(rows.size(), 4U);
  // A machine that has other work only makes a paced step longer.
  EXPECT_GT(std::stod(rows[0].at("gradient_s")), 0.2);
  EXPECT_LT(std::stod(rows[0].at("gradient_s")), 3.0);
  // 114314 parameters of 4 bytes at 1.18 MB/s.
  EXPECT_NEAR(std::stod(rows[0].at("transfer_s")), 114314 * 4 / 1.18e6, 1e-3);
  // One of two workers holds 100352 weights, those of dense1, and sends and receives more than half of all weights.
  EXPECT_GT(std::stod(rows[3].at("simulated_s")), 1.2 * std::stod(rows[3].at("estimate_s")));
  Words half = net;
  half.insert(half.end(), {"--wire", "bf16"});
  EXPECT_NEAR(std::stod(rows_of(estimate(half))[0].at("transfer_s")), 114314 * 2 / 1.18e6, 1e-3);
}

TEST_F(Programs, AnEstimateTakesTheMachinesOfARun) {
  const std::string net = kSource + "/nets/glyphs.yaml";
  Process a({kSlave, endpoint_, "--insecure", "--name", "a", "--device", "paced:20"});
  Process b({kSlave, endpoint_, "--insecure", "--name", "b", "--device", "paced:10"});
  Process train = master({"train", net, "--slaves", "2", "--steps", "2", "--listen", endpoint_, "--insecure", "--out",
                          folder("run"), "--device", "paced:20"});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  const std::string text = estimate({"--from-run", folder("run"), "--seeds", "2"});
  EXPECT_THAT(text, AllOf(HasSubstr("a takes 0."), HasSubstr("b's link carries "), HasSubstr("4 workers, 128 batches"),
                          HasSubstr("the fastest worker alone takes")));
  const auto gradient = [](const std::string& csv) { return std::stod(rows_of(csv).at(0).at("gradient_s")); };
  const double fast = gradient(estimate({"--from-run", folder("run"), "--output", "csv", "--seeds", "1"}));
  const std::vector<Row> rows =
      rows_of(estimate({"--from-run", folder("run"), "--output", "csv", "--seeds", "1", "--type", "sync-join"}));
  EXPECT_NEAR(std::stod(rows.back().at("gradient_s")) / fast, 2.0, 0.4) << "join waits for the slower slave";
  // A link that is given replaces the measured ones, and a timing of another net is refused.
  EXPECT_THAT(estimate({"--from-run", folder("run"), "--link", "10", "--seeds", "1"}), HasSubstr("has 10 Mbit/s"));
  std::filesystem::create_directories(folder("mixed"));
  std::filesystem::copy_file(folder("run/calibration.json"), folder("mixed/calibration.json"));
  std::ofstream(folder("mixed/config.yaml")) << file_bytes(kSource + "/nets/resnet20.yaml");
  Process mixed({kBench, "estimate", "--from-run", folder("mixed")});
  EXPECT_EQ(mixed.wait(30s), kFailure);
  EXPECT_THAT(mixed.output(), HasSubstr("give the folder of one run"));
}

TEST_F(Programs, AnEstimateKnowsTheMasterOfARunWithReplicas) {
  Process a({kSlave, endpoint_, "--insecure", "--name", "a", "--device", "paced:1"});
  Process train =
      master({"train", kSource + "/nets/glyphs.yaml", "--slaves", "1", "--sync", "join", "--steps", "2", "--batch",
              "20", "--listen", endpoint_, "--insecure", "--out", folder("run"), "--device", "paced:1"});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  const Words words{"--from-run", folder("run"), "--master", "--link",    "10",  "--seeds",
                    "1",          "--jitter",    "0",        "--output",  "csv", "--type",
                    "sync-join",  "--server",    "central",  "--batches", "8"};
  const std::vector<Row> rows = rows_of(estimate(words));
  constexpr double kBytesPerSecond = 1.18e6;
  constexpr double kFilters = 4 * (16 * 25 + 16 + 32 * 16 * 25 + 32);
  constexpr double kMaps = 4.0 * 20 * 32 * 7 * 7;
  constexpr double kImages = 4.0 * 20 * 28 * 28;
  EXPECT_NEAR(std::stod(rows.at(0).at("transfer_s")), kFilters / kBytesPerSecond, 1e-4) << "no dense layers";
  EXPECT_NEAR(std::stod(rows.at(0).at("gradient_s")), 0.3, 0.1) << "with dense layers";
  // The gradient of the second stage leaves while that of the first is computed.
  const double least = std::stod(rows[0].at("gradient_s")) + (kFilters + 2 * kMaps) / kBytesPerSecond;
  const double seconds = std::stod(rows[0].at("simulated_s")) / 8;
  EXPECT_GT(seconds, least);
  EXPECT_LT(seconds, least + (kFilters + kImages) / kBytesPerSecond + 0.1);
  // Replicas that train by themselves exchange momenta as well, after 32 steps.
  Words local = words;
  local.insert(local.end(), {"--sync-every", "4"});
  EXPECT_NEAR(std::stod(rows_of(estimate(local)).at(0).at("transfer_s")), 1.125 * kFilters / kBytesPerSecond, 1e-4);
  Process without({kBench, "estimate", "--from-run", folder("run"), "--master", "--t-grad", "1"});
  EXPECT_EQ(without.wait(30s), kUsage);
}

/// Weights and gradients of a run with --wire bf16 travel in two bytes each, as do weights and moments of local steps.
/// With 32 of these the moments travel in each exchange.
TEST_F(Programs, AnEstimateKnowsTheNumberTypeOfARunWithReplicas) {
  Process a({kSlave, endpoint_, "--insecure", "--name", "a", "--device", "paced:20"});
  Process train =
      master({"train", kSource + "/nets/glyphs.yaml", "--slaves", "1", "--sync", "join", "--steps", "1", "--wire",
              "bf16", "--listen", endpoint_, "--insecure", "--out", folder("run"), "--device", "paced:20"});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  const Words words{"--from-run", folder("run"), "--master", "--link",    "10",       "--seeds", "1",
                    "--output",   "csv",         "--type",   "sync-join", "--server", "central"};
  constexpr double kFiltersOverLink = (16 * 25 + 16 + 32 * 16 * 25 + 32) / 1.18e6;
  EXPECT_NEAR(std::stod(rows_of(estimate(words)).at(0).at("transfer_s")), 2 * kFiltersOverLink, 1e-4);
  Words local = words;
  local.insert(local.end(), {"--sync-every", "32"});
  EXPECT_NEAR(std::stod(rows_of(estimate(local)).at(0).at("transfer_s")), 2 * 2 * kFiltersOverLink, 1e-4);
}

TEST_F(Programs, AnEstimateOfTheMasterNeedsARunOfReplicasOfOneSlave) {
  Process alone = master(
      {"train", kSource + "/nets/glyphs.yaml", "--steps", "1", "--out", folder("alone"), "--device", "paced:100"});
  ASSERT_EQ(alone.wait(100s), kSuccess) << alone.output();
  Process needs({kBench, "estimate", "--from-run", folder("alone"), "--master"});
  EXPECT_EQ(needs.wait(30s), kFailure);
  EXPECT_THAT(needs.output(), HasSubstr("--master needs a run with slaves"));
  Process a({kSlave, endpoint_, "--insecure", "--name", "a", "--device", "paced:20"});
  Process b({kSlave, endpoint_, "--insecure", "--name", "b", "--device", "paced:20"});
  Process train = master({"train", kSource + "/nets/glyphs.yaml", "--slaves", "2", "--layout", "samples", "--steps",
                          "1", "--listen", endpoint_, "--insecure", "--out", folder("run"), "--device", "paced:20"});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  Process tiles({kBench, "estimate", "--from-run", folder("run"), "--master"});
  EXPECT_EQ(tiles.wait(30s), kFailure);
  EXPECT_THAT(tiles.output(), HasSubstr("its replica has 2 members"));
}

TEST_F(Programs, AnEstimateTakesTheSpeedOfARunWithoutSlaves) {
  Process train =
      master({"train", kSource + "/nets/glyphs.yaml", "--set", "conv1.filters=2", "--set", "conv2.filters=2", "--batch",
              "500", "--epochs", "1", "--out", folder("run"), "--threads", "1"});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  const Row result = rows_of(file_bytes(folder("run") + "/results.csv")).at(0);
  const std::string csv = estimate({"--from-run", folder("run"), "--output", "csv", "--seeds", "1"});
  EXPECT_NEAR(std::stod(rows_of(csv).at(0).at("gradient_s")), 500 / std::stod(result.at("images_per_second")), 1e-3);
  std::ofstream(folder("run") + "/results.csv") << "epoch,images_per_second\n1,none\n";
  Process damaged({kBench, "estimate", "--from-run", folder("run")});
  EXPECT_EQ(damaged.wait(30s), kFailure);
  EXPECT_THAT(damaged.output(), HasSubstr("results.csv:2: there is no images_per_second above 0"));
  std::filesystem::remove(folder("run") + "/results.csv");
  Process missing({kBench, "estimate", "--from-run", folder("run")});
  EXPECT_EQ(missing.wait(30s), kFailure);
  EXPECT_THAT(missing.output(), HasSubstr("results.csv"));
}

TEST(TransferProgram, MovesAllWeightsOfANet) {
  for (const bool encrypted : {true, false}) {
    Words words{kBench, "transfer", "--net", kSource + "/nets/glyphs.yaml", "--repeats", "3", "--format", "csv"};
    if (!encrypted) words.emplace_back("--insecure");
    Process process(words);
    ASSERT_EQ(process.wait(60s), kSuccess) << process.output();
    const Row row = rows_of(process.output()).at(0);
    EXPECT_EQ(row.at("tensors"), "8");
    EXPECT_EQ(row.at("bytes"), std::to_string(4 * 114314));
    EXPECT_EQ(row.at("encrypted"), encrypted ? "1" : "0");
    EXPECT_GT(std::stod(row.at("seconds")), 0.0);
    EXPECT_NEAR(std::stod(row.at("mb_s")) * std::stod(row.at("seconds")), 4 * 114314 / 1e6, 0.02);
  }
}

TEST_F(Programs, AnotherMachineReceivesTheWeightsWithTheKeyThatIsPrinted) {
  Process sender({kBench, "transfer", "--net", kSource + "/nets/glyphs.yaml", "--repeats", "2", "--listen", endpoint_});
  ASSERT_TRUE(sender.wait_for("convoy-bench transfer --connect tcp://THIS-HOST:", 30s)) << sender.output();
  const std::string said = sender.output();
  const std::string name = "CONVOY_KEY=";
  const std::string key = said.substr(said.find(name) + name.size(), 128);
  Process receiver({"/usr/bin/env", name + key, kBench, "transfer", "--connect", endpoint_});
  EXPECT_EQ(sender.wait(60s), kSuccess) << sender.output();
  EXPECT_EQ(receiver.wait(60s), kSuccess) << receiver.output();
  EXPECT_THAT(sender.output(),
              AllOf(HasSubstr("8 tensors, 0.46 MB, encrypted, to the other machine"), HasSubstr("2 rounds), ")));
}

struct BadEstimate {
  std::string name;
  Words options;
  int code;
  std::string says;
};

void PrintTo(const BadEstimate& bad, std::ostream* out) { *out << bad.name; }

class BadEstimates : public testing::TestWithParam<BadEstimate> {};

TEST_P(BadEstimates, EndWithAClearError) {
  Words words{kBench, "estimate"};
  words.insert(words.end(), GetParam().options.begin(), GetParam().options.end());
  Process process(words);
  EXPECT_EQ(process.wait(30s), GetParam().code) << process.output();
  EXPECT_THAT(process.output(), HasSubstr(GetParam().says));
}

/// Options after times that are well.
BadEstimate with_times(const std::string& name, const Words& options, const std::string& says) {
  Words words{"--t-grad", "1", "--t-comm", "1"};
  words.insert(words.end(), options.begin(), options.end());
  return {name, words, kUsage, says};
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadEstimates,
    testing::Values(
        BadEstimate{"Nothing", {}, kUsage, "--t-grad is missing; give it, or --net NET"},
        BadEstimate{"NoTransfer", {"--t-grad", "1"}, kUsage, "--t-comm is missing"},
        BadEstimate{"Zero", {"--t-grad", "0", "--t-comm", "1"}, kUsage, "--t-grad: '0' is not a number from"},
        BadEstimate{"Negative", {"--t-grad", "1", "--t-comm", "-1"}, kUsage, "--t-comm: '-1' is not a number from"},
        BadEstimate{"NotANumber", {"--t-grad", "nan", "--t-comm", "1"}, kUsage, "'nan' is not a number from"},
        with_times("Type", {"--type", "join"}, "'join' is not known"),
        with_times("MistypedType", {"--type", "sync-jion"}, "did you mean sync-join?"),
        with_times("Server", {"--server", "both"}, "choose one of: central, distributed"),
        with_times("NoWorkers", {"--workers", "0"}, "--workers: '0' is not a whole number from 1 to 64"),
        with_times("ManyWorkers", {"--workers", "65"}, "'65' is not a whole number from 1 to 64"),
        with_times("NoBatches", {"--batches", "0"}, "--batches"),
        with_times("FewBatches", {"--workers", "8", "--batches", "7"}, "--batches 7 is less than one for each of 8"),
        with_times("Output", {"--output", "json"}, "--output"),
        with_times("OutWithoutPlot", {"--out", "folder"}, "--out needs --output plot"),
        with_times("Jitter", {"--jitter", "301"}, "--jitter: '301' is not a number from 0 to 300"),
        with_times("Latency", {"--latency", "-1"}, "--latency"), with_times("Apply", {"--t-apply", "x"}, "--t-apply"),
        with_times("SkipsAll", {"--skip", "128"}, "--skip 128 leaves none of 128 batches"),
        with_times("BackupOfSplit", {"--backup", "1", "--type", "sync-split"}, "--backup is for sync-join"),
        with_times("BackupOfAll", {"--backup", "4", "--workers", "4"}, "--backup 4 leaves no worker of 4"),
        with_times("SyncEvery", {"--sync-every", "0"}, "--sync-every"),
        with_times("Seeds", {"--seeds", "0"}, "--seeds"),
        with_times("LinkOfNoNet", {"--link", "100"}, "--t-comm and --link exclude each other"),
        with_times("WireOfNoNet", {"--wire", "bf16"}, "exclude"), with_times("MasterOfNoRun", {"--master"}, "--master"),
        with_times("DeviceOfNoNet", {"--device", "cpu"}, "--device"),
        with_times("DeviceOfGivenTimes", {"--net", kSource + "/nets/glyphs.yaml", "--device", "cpu"}, "exclude"),
        BadEstimate{"NoNet", {"--net", "no.yaml"}, kFailure, "no.yaml"},
        BadEstimate{"NoRun", {"--from-run", "no-run"}, kFailure, "no-run/config.yaml"},
        BadEstimate{"NetAndRun", {"--net", "a.yaml", "--from-run", "b"}, kUsage, "exclude"},
        BadEstimate{"Device", {"--net", kSource + "/nets/glyphs.yaml", "--device", "warp"}, kFailure, "'warp'"},
        BadEstimate{"Unwritable",
                    {"--t-grad", "1", "--t-comm", "1", "--seeds", "1", "--output", "plot", "--out", "/proc/none"},
                    kFailure,
                    "/proc/none"}),
    [](const auto& info) { return info.param.name; });

TEST(TransferProgram, RefusesWhatCannotWork) {
  const Words key{"/usr/bin/env", "-u", "CONVOY_KEY", kBench, "transfer"};
  for (const auto& [options, code, says] :
       {std::tuple{Words{"--connect", "tcp://127.0.0.1:1"}, kFailure, "the key is missing"},
        std::tuple{Words{"--connect", "tcp://127.0.0.1:1", "--key", "abc"}, kFailure, "128 hexadecimal digits"},
        std::tuple{Words{"--net", kSource + "/nets/lenet.yaml", "--listen", "here"}, kFailure,
                   "expected tcp://HOST:PORT"},
        std::tuple{Words{"--listen", "tcp://*:5580", "--connect", "tcp://a:1"}, kUsage, "exclude"},
        std::tuple{Words{"--net", "no.yaml"}, kFailure, "no.yaml"},
        std::tuple{Words{"--repeats", "0"}, kUsage, "--repeats"}}) {
    Words words = key;
    words.insert(words.end(), options.begin(), options.end());
    Process process(words);
    EXPECT_EQ(process.wait(30s), code) << process.output();
    EXPECT_THAT(process.output(), HasSubstr(says));
  }
}

}  // namespace
}  // namespace convoy
