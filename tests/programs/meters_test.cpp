// The list of meters, as users see it.
#include <gmock/gmock.h>

#include "tests/energy/fake_machine.hpp"
#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Process list_meters_of(const std::string& root, std::vector<std::string> more = {}) {
  std::vector<std::string> command{"/usr/bin/env", "CONVOY_METER_ROOT=" + root, "CONVOY_NVML_LIBRARY=none", kSlave,
                                   "--list-meters"};
  command.insert(command.end(), more.begin(), more.end());
  return Process(command);
}

TEST_F(Programs, TheSlaveListsTheMetersOfItsMachine) {
  const energy::FakeMachine jetson("jetson-orin-nano");
  Process list = list_meters_of(jetson.folder());
  ASSERT_EQ(list.wait(60s), kSuccess) << list.output();
  EXPECT_THAT(list.output(),
              AllOf(HasSubstr("* jetson "), HasSubstr(" board "), HasSubstr(" 6.0 W"), HasSubstr("  jetson:VDD_SOC "),
                    HasSubstr("Nothing was found of: NVIDIA GPU (NVML)")));
}

TEST_F(Programs, TheSlaveListsNamedMeters) {
  const energy::FakeMachine jetson("jetson-orin-nano");
  Process plug = list_meters_of(jetson.folder(), {"--meter", "shelly:127.0.0.1:9"});
  ASSERT_EQ(plug.wait(60s), kSuccess) << plug.output();
  EXPECT_THAT(plug.output(), HasSubstr("unusable: 127.0.0.1:9 cannot be reached: Connection refused"));
  Process rail = list_meters_of(jetson.folder(), {"--meter", "jetson:VDD_SOC"});
  ASSERT_EQ(rail.wait(60s), kSuccess) << rail.output();
  EXPECT_THAT(rail.output(), HasSubstr("* jetson:VDD_SOC"));
}

TEST_F(Programs, UnknownMetersAreErrors) {
  const energy::FakeMachine jetson("jetson-orin-nano");
  Process list = list_meters_of(jetson.folder(), {"--meter", "jetson:VDD_SOX"});
  EXPECT_EQ(list.wait(60s), kFailure);
  EXPECT_THAT(list.output(), AllOf(HasSubstr("there is no meter 'jetson:VDD_SOX'"), HasSubstr("jetson:VDD_SOC")));
}

TEST_F(Programs, AMeterThatIsNotThereIsAnErrorBeforeARun) {
  const energy::FakeMachine jetson("jetson-orin-nano");
  Process master({"/usr/bin/env", "CONVOY_METER_ROOT=" + jetson.folder(), "CONVOY_NVML_LIBRARY=none", kMaster, "train",
                  kSource + "/nets/glyphs.yaml", "--meter", "rapl", "--out", folder("run")});
  EXPECT_EQ(master.wait(60s), kFailure);
  EXPECT_THAT(master.output(), AllOf(HasSubstr("there is no meter 'rapl'; this machine has: jetson")));
}

/// A run without a meter assumes nothing unless it is asked to, and then says so.
TEST_F(Programs, AssumedWattsAreNamed) {
  Process master({"/usr/bin/env", "CONVOY_METER_ROOT=" + folder("no-sensors"), "CONVOY_NVML_LIBRARY=none", kMaster,
                  "train", kSource + "/nets/glyphs.yaml", "--steps", "5", "--threads", "1", "--out", folder("assumed"),
                  "--assume-watts", "30"});
  ASSERT_EQ(master.wait(100s), kSuccess) << master.output();
  EXPECT_THAT(master.output(), AllOf(HasSubstr("energy: nothing is measured + "), HasSubstr(" J assumed"),
                                     HasSubstr("assumed 30 W (--assume-watts)")));
  EXPECT_THAT(file_bytes(folder("assumed") + "/events.jsonl"), HasSubstr("\"assumed_joules\":"));
  Process plain({"/usr/bin/env", "CONVOY_METER_ROOT=" + folder("no-sensors"), "CONVOY_NVML_LIBRARY=none", kMaster,
                 "train", kSource + "/nets/glyphs.yaml", "--steps", "5", "--threads", "1", "--out", folder("plain")});
  ASSERT_EQ(plain.wait(100s), kSuccess) << plain.output();
  EXPECT_THAT(plain.output(), Not(HasSubstr("energy:")));
  EXPECT_THAT(file_bytes(folder("plain") + "/events.jsonl"),
              HasSubstr("\"not_measurable\":\"the machine has no meter"));
}

}  // namespace
}  // namespace convoy
