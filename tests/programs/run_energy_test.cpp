// Tests the energy of a run over three slaves with faked sensors: a processor, an OpenCL device, and a phone, which is
// this machine's slave or the one for aarch64 under qemu.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/exit_code.hpp"
#include "tests/programs/fake_sensors.hpp"
#include "tests/programs/other_devices.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

struct Ended {
  nlohmann::json end;  ///< the last event
  std::string output;
};

/// The program that starts the phone's slave.
const std::vector<std::string> kNative{CONVOY_SLAVE};
const std::vector<std::string> kEmulated{"qemu-aarch64", "-L", kSysroot, kAarch64Slave};

/// Trains with three slaves, one for each faked machine, and a master without a meter.
Ended energy_run(const FakeSensors& sensors, const std::vector<std::string>& phone, int steps) {
  const TemporaryFolder scratch;
  const std::string endpoint = free_endpoint();
  const auto slave = [&](std::vector<std::string> program, const std::string& name,
                         const std::vector<std::string>& more) {
    program.insert(program.end(), {endpoint, "--insecure", "--name", name, "--threads", "1"});
    program.insert(program.end(), more.begin(), more.end());
    return program;
  };
  std::vector<Process> slaves;
  slaves.emplace_back(on_sensors(sensors.desktop, slave(kNative, "a-desktop", {"--device", "cpu"})));
  slaves.emplace_back(
      on_sensors(sensors.jetson, slave(kNative, "b-jetson", {"--device", has_opencl() ? "opencl:0" : "eigen"})));
  slaves.emplace_back(on_sensors(sensors.phone, slave(phone, "c-phone", {"--device", "eigen", "--meter", "odpm:gpu"})));
  std::vector<std::string> command{
      "/usr/bin/env", "CONVOY_METER_ROOT=" + scratch.path(),    "CONVOY_NVML_LIBRARY=none", CONVOY_MASTER,
      "train",        source_folder() + "/nets/lenet-tanh.yaml"};
  const std::map<std::string, std::string> options{{"--batch", "32"},
                                                   {"--steps", std::to_string(steps)},
                                                   {"--device", "eigen"},
                                                   {"--threads", "1"},
                                                   {"--slaves", "3"},
                                                   {"--shares", "10,9,1"},
                                                   {"--exchange", "star"},
                                                   {"--listen", endpoint},
                                                   {"--out", scratch.path() + "/run"},
                                                   {"--switch-watts", "5"}};
  for (const auto& [name, value] : options) command.insert(command.end(), {name, value});
  command.emplace_back("--insecure");
  Process master(command);
  EXPECT_EQ(master.wait(200s), kSuccess) << master.output();
  const std::string events = text_of(scratch.path() + "/run/events.jsonl");
  const auto line = events.find("{\"event\":\"end\"");
  if (line == std::string::npos) fail("the run has no end: {}", master.output());
  return {nlohmann::json::parse(events.substr(line)), master.output()};
}

/// Expects what the sensors say, and a split of it that adds up.
void expect_joules(const std::vector<std::string>& phone) {
  const FakeSensors sensors;
  Ended run = energy_run(sensors, phone, 200);
  // Where steps are short, or the machine is so busy that sensors are hardly read, refusals are right. A longer run
  // gets more readings.
  for (int steps = 400; run.end["energy"]["measured_members"] != 3 && steps <= 1600; steps *= 2)
    run = energy_run(sensors, phone, steps);
  const auto& end = run.end;
  const auto& total = end["energy"];
  double joules = 0;
  double split = 0;
  const std::map<std::string, double> watts{{"a-desktop", 20}, {"b-jetson", 6.0025}, {"c-phone", 2}};
  for (const auto& member : total["members"]) {
    const std::string name = member["member"];
    if (name == "master") {
      EXPECT_THAT(member["not_measurable"].get<std::string>(), testing::HasSubstr("no meter")) << total;
      continue;
    }
    ASSERT_TRUE(member.contains("joules")) << member;
    const double seconds = member["seconds"];
    EXPECT_NEAR(member["joules"].get<double>() / seconds, watts.at(name), 0.01 * watts.at(name)) << member;
    EXPECT_GT(seconds, 0.7 * end["seconds"].get<double>()) << member;
    const double parts =
        member["compute"].get<double>() + member["transfer"].get<double>() + member["wait"].get<double>();
    EXPECT_NEAR(parts, member["joules"].get<double>(), 0.01 * parts) << member;
    EXPECT_GT(member["compute"].get<double>(), 0) << member;
    EXPECT_GT(member["wait"].get<double>(), 0) << member;
    joules += member["joules"].get<double>();
    split += parts;
  }
  EXPECT_EQ(total["measured_members"], 3);
  EXPECT_NEAR(total["joules"].get<double>(), joules, 0.001 * joules);
  EXPECT_NEAR(split, joules, 0.01 * joules);
  EXPECT_NEAR(total["declared_joules"].get<double>(), 5 * end["seconds"].get<double>(), 5);
  EXPECT_THAT(
      run.output,
      testing::AllOf(testing::HasSubstr("measured on 3 of 4 members"), testing::HasSubstr("declared for network gear"),
                     testing::HasSubstr("  master           not measurable: the machine has no meter that can be used"),
                     testing::HasSubstr(" J/image"), testing::HasSubstr("odpm:gpu (rail, measured)")));
}

TEST(Energy, OfThreeSlavesOnFakedSensors) { expect_joules(kNative); }

TEST(Energy, OfTwoSlavesAndOneForAarch64) {
  if (!std::filesystem::exists(kAarch64Slave) || !on_path("qemu-aarch64")) {
    GTEST_SKIP() << "no slave for aarch64: scripts/install tests, scripts/sysroot and scripts/build aarch64 make it";
  }
  expect_joules(kEmulated);
}

}  // namespace
}  // namespace convoy
