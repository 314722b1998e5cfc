// Tests descriptions of machines, and the times that follow from them.

#include "master/cluster/described_machines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/choose.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<double> speeds(const std::string& text) {
  std::vector<double> gflops;
  for (const DescribedMachine& machine : machines_from(text)) gflops.push_back(machine.gflops);
  return gflops;
}

TEST(DescribedMachines, AreReadInTheirOrder) {
  EXPECT_EQ(speeds("240@1000"), (std::vector<double>{240}));
  EXPECT_EQ(speeds("2x240@1000"), (std::vector<double>{240, 240}));
  EXPECT_EQ(speeds("100.5@1000,2x400@100,1x7@1"), (std::vector<double>{100.5, 400, 400, 7}));
  EXPECT_EQ(machines_from("3@1000,2@100")[1].mbits, 100.0);
  EXPECT_EQ(machines_from("256x1@1").size(), 256U);
}

TEST(DescribedMachines, ThatCannotBeReadAreNamed) {
  for (const std::string bad :
       {"", ",", "4x240", "x240@1000", "4x@1000", "4x240@", "@", "0x240@1000", "1.5x240@1000", "-1x240@1000",
        "4x0@1000", "4x240@-1", "4x240@nan", "infx240@1000", "4x240@1000 ", "4x240@1000x", "1e300@1", "240@10x2"}) {
    EXPECT_THAT([&] { machines_from(bad); },
                ThrowsMessage<Error>(HasSubstr("\"" + bad.substr(0, bad.find(',')) + "\" describes no machines")));
  }
  EXPECT_THAT([] { machines_from("4x240@1000,bad"); },
              ThrowsMessage<Error>(HasSubstr("\"bad\" describes no machines")));
  EXPECT_THAT([] { machines_from("4x240@1000,"); }, ThrowsMessage<Error>(HasSubstr("\"\" describes no machines")));
  EXPECT_THAT([] { machines_from("200x1@1,57x1@1"); }, ThrowsMessage<Error>(HasSubstr("more than 256 machines")));
}

TEST(DescribedMachines, MayHaveWatts) {
  const auto machines = machines_from("2x240@1000/5:25:8,60@100,7@10/0.5:1e2:0.5");
  ASSERT_EQ(machines.size(), 4U);
  EXPECT_EQ(machines[1].power, (Power{.idle = 5, .compute = 25, .transfer = 8}));
  EXPECT_FALSE(machines[2].power);
  EXPECT_EQ(machines[3].power->compute, 100.0);
  EXPECT_EQ(machines[3].mbits, 10.0);
}

TEST(DescribedMachines, WattsThatCannotBeReadAreNamed) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"", "\"\" is not a number"},
      {"5", "it has 1 number;"},
      {"5:25", "it has 2 numbers;"},
      {"5:25:8:9", "it has 4 numbers;"},
      {"5:25:", "\"\" is not a number"},
      {":25:8", "\"\" is not a number"},
      {"5:x:8", "\"x\" is not a number"},
      {"5:25:8W", "\"8W\" is not a number"},
      {"5:25:8/1", "\"8/1\" is not a number"},
      {" 5:25:8", "\" 5\" is not a number"},
      {"nan:25:8", "nan W is not a power"},
      {"5:inf:8", "inf W is not a power"},
      {"-5:25:8", "-5 W is not a power"},
      {"5:2e6:8", "2e+06 W is not a power"},
      {"25:5:25", "computing takes 5 W, less than the 25 W of idling"},
      {"5:25:4", "moving data takes 4 W, less than the 5 W of idling"},
      {"0:0:0", "computing takes 0 W"},
  };
  for (const auto& [watts, error] : table) {
    const std::string bad = "3x240@1000/" + watts;
    EXPECT_THAT([&] { machines_from("1@1/1:1:1," + bad); },
                ThrowsMessage<Error>(testing::AllOf(HasSubstr("\"" + bad + "\""), HasSubstr(error))));
    EXPECT_THAT([&] { power_from(watts); }, ThrowsMessage<Error>(HasSubstr(error)));
  }
  EXPECT_THAT([] { machines_from("4/5:25:8x240@1000"); }, ThrowsMessage<Error>(HasSubstr("describes no machines")));
  EXPECT_THAT([] { machines_from("4x240@/5:25:8"); }, ThrowsMessage<Error>(HasSubstr("describes no machines")));
  EXPECT_THAT([] { power_from("\x1b[2J"); }, ThrowsMessage<Error>(HasSubstr("\\x1b[2J")));
}

TEST(DescribedMachines, TakeOperationsOverTheirSpeed) {
  const Cut parts = cut(parse_net(R"(
name: small
input: {channels: 3, height: 16, width: 16}
layers:
  - {name: conv, type: conv, filters: 8, kernel: 3}
  - {name: dense, type: dense, units: 4}
  - {name: loss, type: softmax_cross_entropy}
training: {batch: 10, epochs: 1, learning_rate: 0.1}
)",
                                  "small.yaml"));
  const Calibration calibration = calibration_of(machines_from("2@8,4@16"), {.gflops = 4.0, .latency = 0.5}, parts, 10);
  ASSERT_EQ(calibration.members.size(), 2U);
  const double flops = conv_flops(parts.trunk[0], 10, 8);
  EXPECT_DOUBLE_EQ(calibration.members[0].stages[0][0].forward, flops / 2e9);
  EXPECT_DOUBLE_EQ(calibration.members[1].stages[0][0].backward_filters, flops / 4e9);
  EXPECT_DOUBLE_EQ(calibration.members[1].link.in, 2 * calibration.members[0].link.in);
  EXPECT_DOUBLE_EQ(calibration.members[1].latency, 0.5);
  EXPECT_EQ(calibration.members[1].name, "slave2");
  EXPECT_FALSE(calibration.master.power);
  EXPECT_GE(calibration.seconds_alone, 2 * flops / 4e9) << "the first stage finds no gradient of its input";
}

}  // namespace
}  // namespace convoy
