// The facts of a manifest, from made-up machines.
#include "study/facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/energy/fake_machine.hpp"

namespace convoy::study {
namespace {

using testing::HasSubstr;

TEST(Facts, AreThoseOfThePhone) {
  energy::FakeMachine phone("pixel");
  phone.write("/proc/sys/kernel/osrelease", "5.10.107-android13");
  phone.write("/proc/cpuinfo", "processor\t: 0\nHardware\t: Tensor\n");
  phone.write("/sys/class/thermal/thermal_zone0/type", "BIG");
  phone.write("/sys/class/thermal/thermal_zone0/temp", "41500");
  phone.write("/sys/class/thermal/thermal_zone1/type", "broken");
  phone.write("/sys/class/thermal/thermal_zone1/temp", "N/A");
  phone.write("/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1803000");
  phone.write("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "sched\x1b[31mutil");
  phone.write("/sys/class/devfreq/28000000.mali/cur_freq", "848000000");
  phone.write("/sys/class/power_supply/battery/capacity", "80");
  phone.commands["getprop ro.product.model"] = "Pixel 6";
  const auto machine = machine_facts(phone);
  EXPECT_EQ(machine["model"], "Pixel 6");
  EXPECT_EQ(machine["processor"], "Tensor");
  EXPECT_EQ(machine["kernel"], "5.10.107-android13");
  const auto state = state_facts(phone);
  EXPECT_EQ(state["date"], "2027-01-15T08:00:00Z");
  ASSERT_EQ(state["temperatures"].size(), 1U) << state;
  EXPECT_EQ(state["temperatures"][0]["type"], "BIG");
  EXPECT_EQ(state["temperatures"][0]["celsius"], 41.5);
  EXPECT_EQ(state["processor_clocks"][0]["mhz"], 1803);
  EXPECT_EQ(state["processor_clocks"][0]["governor"], "sched\\x1b[31mutil");
  EXPECT_EQ(state["device_clocks"][0]["mhz"], 848);
  ASSERT_EQ(state["batteries"].size(), 1U) << state;
  EXPECT_EQ(state["batteries"][0]["status"], "Discharging");
  EXPECT_EQ(state["batteries"][0]["percent"], 80);
}

TEST(Facts, AreAbsentWithTheReason) {
  const energy::FakeMachine empty;
  const auto machine = machine_facts(empty);
  for (const char* const fact : {"model", "processor", "kernel"}) {
    EXPECT_THAT(machine[fact]["absent"].get<std::string>(), HasSubstr("/proc/")) << machine;
  }
  const auto state = state_facts(empty);
  EXPECT_THAT(state["temperatures"]["absent"].get<std::string>(), HasSubstr("/sys/class/thermal"));
  EXPECT_THAT(state["device_clocks"]["absent"].get<std::string>(), HasSubstr("/sys/class/devfreq"));
  energy::FakeMachine forbidden("pixel");
  forbidden.failures["/proc/sys/kernel/osrelease"] = EACCES;
  EXPECT_THAT(machine_facts(forbidden)["kernel"]["absent"].get<std::string>(), HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace convoy::study
