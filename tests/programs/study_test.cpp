// The study of energy on faked sensors, as people run it: convoy-slave for aarch64 under qemu as a phone, and
// convoy-bench.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/exit_code.hpp"
#include "tests/programs/fake_sensors.hpp"
#include "tests/programs/other_devices.hpp"
#include "tests/support/files.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

/// Rows of a CSV file by the names of its columns.
std::vector<std::map<std::string, std::string>> rows_of(const std::string& file) {
  const std::vector<std::vector<std::string>> table = fields_of(text_of(file));
  std::vector<std::map<std::string, std::string>> rows;
  for (std::size_t i = 1; i < table.size(); ++i) {
    EXPECT_EQ(table[i].size(), table[0].size());
    std::map<std::string, std::string>& row = rows.emplace_back();
    for (std::size_t f = 0; f < std::min(table[0].size(), table[i].size()); ++f) row[table[0][f]] = table[i][f];
  }
  return rows;
}

nlohmann::json manifest_of(const std::string& folder) {
  return nlohmann::json::parse(text_of(folder + "/manifest.json"));
}

/// The words of a short study of a small net.
std::vector<std::string> short_study(std::vector<std::string> program, const std::string& out,
                                     const std::vector<std::string>& more) {
  program.insert(program.end(), {"--device", "eigen", "--threads", "1", "--trial-seconds", "1", "--warm-up", "0",
                                 "--trials", "5", "--out", out});
  program.insert(program.end(), more.begin(), more.end());
  return program;
}

/// Studies a small net on the faked phone, whose GPU takes 2 W, and checks the files.
void study_on_the_phone(const std::vector<std::string>& program) {
  const FakeSensors sensors;
  sensors.phone.write("/sys/class/thermal/thermal_zone0/temp", "41500");
  const TemporaryFolder scratch;
  const std::string out = scratch.path() + "/study";
  Process process(on_sensors(sensors.phone, short_study(program, out, {"--meter", "odpm:gpu", "--batch", "4"})));
  ASSERT_EQ(process.wait(280s), kSuccess) << process.output();
  const auto rows = rows_of(out + "/study.csv");
  ASSERT_EQ(rows.size(), 1U) << process.output();
  for (auto row : rows) {
    EXPECT_EQ(row["trials"], "5");
    EXPECT_EQ(row["device"], "eigen");
    EXPECT_EQ(row["filters"], "4:8");
    EXPECT_EQ(row["origin"], "measured");
    EXPECT_EQ(row["meter"], "odpm:gpu");
    EXPECT_EQ(row["scope"], "rail");
    const double images = std::stod(row["images"]);
    EXPECT_GT(images, 0);
    EXPECT_NEAR(std::stod(row["joules"]), 2 * std::stod(row["seconds"]), 0.04 * std::stod(row["seconds"]));
    EXPECT_NEAR(std::stod(row["joules_per_image"]) * std::stod(row["images_per_s"]), 2, 0.3);
    // The phone takes 2 W whatever it does, so nothing is above idle.
    EXPECT_EQ(row["joules_per_image_above_idle"], "");
    EXPECT_THAT(row["refusal_above_idle"], HasSubstr("not above the idle power of"));
  }
  EXPECT_EQ(rows_of(out + "/trials.csv").size(), 5U);
  const auto manifest = manifest_of(out);
  EXPECT_EQ(manifest["program"], "convoy-slave");
  EXPECT_EQ(manifest["state"], "complete");
  EXPECT_EQ(manifest["options"]["stages"][0], "3x8x8:4x3x3,4x6x6:8x3x3:p1");
  EXPECT_EQ(manifest["start"]["temperatures"][0]["celsius"], 41.5);
  EXPECT_EQ(manifest["end"]["batteries"][0]["status"], "Discharging");
  EXPECT_THAT(manifest["start"]["device_clocks"]["absent"].get<std::string>(), HasSubstr("/sys/class/devfreq"));
  EXPECT_EQ(manifest["devices"][0]["meter"]["name"], "odpm:gpu");
  EXPECT_NEAR(manifest["devices"][0]["meter"]["observed_refresh_seconds"].get<double>(), 0.05, 0.045);
  EXPECT_EQ(manifest["devices"][0]["meter"]["wraps"], 0);
  EXPECT_GE(manifest["devices"][0]["meter"]["gaps"].get<int>(), 0);
  EXPECT_GE(manifest["devices"][0]["meter"]["gap_seconds"].get<double>(), 0);
  EXPECT_THAT(text_of(out + "/pareto.gnuplot"), HasSubstr("eigen (odpm:gpu, rail, measured)"));
  EXPECT_THAT(process.output(), HasSubstr("`gnuplot pareto.gnuplot` in this folder draws it"));
}

const std::vector<std::string> kStages{"study", "--stages", "3x8x8:4x3x3,4x6x6:8x3x3:p1"};

TEST(EnergyStudy, OfTheSlaveAlone) {
  std::vector<std::string> program{CONVOY_SLAVE};
  program.insert(program.end(), kStages.begin(), kStages.end());
  study_on_the_phone(program);
}

TEST(EnergyStudy, OfTheSlaveForAarch64OnAFakedPhone) {
  if (!std::filesystem::exists(kAarch64Slave))
    GTEST_SKIP() << "the slave for aarch64 is not built (scripts/build aarch64)";
  if (!on_path("qemu-aarch64")) GTEST_SKIP() << "qemu-aarch64 is not installed";
  std::vector<std::string> program{"qemu-aarch64", "-L", kSysroot, kAarch64Slave};
  program.insert(program.end(), kStages.begin(), kStages.end());
  study_on_the_phone(program);
}

/// The words of a short study by convoy-bench.
std::vector<std::string> bench_study(const std::string& out, const std::vector<std::string>& more) {
  return short_study({CONVOY_BENCH, "energy", "--net", source_folder() + "/nets/glyphs.yaml"}, out, more);
}

TEST(EnergyStudy, OfANetWithOtherFilters) {
  const FakeSensors sensors;
  const TemporaryFolder scratch;
  Process process(on_sensors(sensors.desktop, bench_study(scratch.path(), {"--batch", "4", "--filters", "4:6"})));
  ASSERT_EQ(process.wait(280s), kSuccess) << process.output();
  const auto rows = rows_of(scratch.path() + "/study.csv");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("filters"), "4:6");
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("meter"), "rapl");
    EXPECT_NEAR(std::stod(row.at("joules")) / std::stod(row.at("seconds")), 20, 0.4);
  }
  EXPECT_EQ(rows[0].at("pareto"), "1");
}

TEST(EnergyStudy, AnInterruptedStudyKeepsItsRows) {
  const FakeSensors sensors;
  const TemporaryFolder scratch;
  Process process(on_sensors(sensors.desktop, bench_study(scratch.path(), {"--batch", "2,4"})));
  ASSERT_TRUE(process.wait_for("eigen          2 ", 120s)) << process.output();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(60s), kInterrupted) << process.output();
  const auto rows = rows_of(scratch.path() + "/study.csv");
  ASSERT_EQ(rows.size(), 2U) << process.output();
  EXPECT_NE(rows[0].at("state"), "interrupted");
  EXPECT_NE(rows[0].at("joules_per_image"), "");
  EXPECT_EQ(rows[1].at("state"), "interrupted");
  EXPECT_EQ(manifest_of(scratch.path())["state"], "interrupted");
  EXPECT_THAT(process.output(), HasSubstr("interrupted after"));
}

TEST(EnergyStudy, WithoutAMeterNothingIsGuessed) {
  const TemporaryFolder scratch;
  const energy::FakeMachine none;
  const auto study = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.end(), {"--batch", "4"});
    Process process(on_sensors(none, bench_study(scratch.path() + out, more)));
    EXPECT_EQ(process.wait(120s), kSuccess) << process.output();
    return process.output();
  };
  EXPECT_THAT(study("/plain", {}), AllOf(HasSubstr("energy not measurable: the machine has no meter"),
                                         HasSubstr("no energy is known, so there is nothing to plot")));
  const auto plain = rows_of(scratch.path() + "/plain/study.csv").at(0);
  EXPECT_GT(std::stod(plain.at("images_per_s")), 0);
  EXPECT_EQ(plain.at("joules"), "");
  EXPECT_EQ(plain.at("origin"), "none");
  EXPECT_THAT(plain.at("refusal"), HasSubstr("no meter"));
  EXPECT_THAT(study("/assumed", {"--assume-watts", "30"}), HasSubstr("Joules are assumed (--assume-watts)"));
  const auto assumed = rows_of(scratch.path() + "/assumed/study.csv").at(0);
  EXPECT_EQ(assumed.at("origin"), "assumed");
  EXPECT_NEAR(std::stod(assumed.at("joules")), 30 * std::stod(assumed.at("seconds")), 0.1);
  EXPECT_EQ(manifest_of(scratch.path() + "/assumed")["options"]["assumed_watts"], 30);
  EXPECT_THAT(text_of(scratch.path() + "/assumed/pareto.gnuplot"), HasSubstr("eigen (assumed power)"));
  EXPECT_THAT(text_of(scratch.path() + "/assumed/trials.csv"), HasSubstr(",assumed,"));
}

TEST(EnergyStudy, BadCommandsAreRefused) {
  const TemporaryFolder scratch;
  const energy::FakeMachine none;
  const auto output_of = [&](std::vector<std::string> command, int code) {
    command.insert(command.end(), {"--out", scratch.path() + "/bad"});
    Process process(on_sensors(none, command));
    EXPECT_EQ(process.wait(60s), code) << process.output();
    return process.output();
  };
  EXPECT_THAT(output_of({CONVOY_SLAVE, "study", "--stages", "3x3:4"}, kFailure),
              HasSubstr("--stages: '3x3:4' is no convolution; write CHANNELSxHEIGHTxWIDTH:FILTERSxROWSxCOLUMNS"));
  EXPECT_THAT(output_of({CONVOY_SLAVE, "study", "--device", "paced:240"}, kFailure),
              HasSubstr("has no energy to study"));
  EXPECT_THAT(output_of({CONVOY_SLAVE, "study", "--device", "eigen", "--meter", "rapl"}, kFailure),
              HasSubstr("there is no meter 'rapl'"));
  EXPECT_THAT(output_of({CONVOY_SLAVE, "study", "--interval", "nan"}, kUsage), HasSubstr("--interval"));
  EXPECT_THAT(output_of({CONVOY_BENCH, "energy", "--trials", "2"}, kUsage), HasSubstr("--trials"));
  EXPECT_THAT(output_of({CONVOY_SLAVE, "study", "--device", "eigen", "--batch", "65536", "--stages",
                         "64x1024x1024:64x3x3", "--warm-up", "0"},
                        kSuccess),
              HasSubstr("failed: batch 65536 needs"));
  Process words({CONVOY_BENCH, "energy", "--net", source_folder() + "/nets/glyphs.yaml", "--print-stages", "--filters",
                 "4:6,8:12"});
  EXPECT_EQ(words.wait(60s), kSuccess);
  const std::string text = words.output();
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_THAT(text, AllOf(HasSubstr(":4x"), HasSubstr(":12x")));
}

}  // namespace
}  // namespace convoy
