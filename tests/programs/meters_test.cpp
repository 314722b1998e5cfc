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
  Process alone({kSlave, "--meter", "rapl"});
  EXPECT_EQ(alone.wait(60s), kUsage) << alone.output();
}

}  // namespace
}  // namespace convoy
