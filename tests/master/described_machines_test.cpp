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
  EXPECT_GE(calibration.seconds_alone, 2 * flops / 4e9) << "the first stage finds no gradient of its input";
}

}  // namespace
}  // namespace convoy
