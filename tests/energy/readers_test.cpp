// Every source reads faked trees: the right figure, or the right refusal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "energy/meter_list.hpp"
#include "energy/meters.hpp"
#include "energy/record.hpp"
#include "energy/sampler.hpp"
#include "tests/energy/fake_machine.hpp"

namespace convoy::energy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const MeterRow& row_of(const std::vector<MeterRow>& rows, const std::string& name) {
  const auto row = std::ranges::find_if(rows, [&](const MeterRow& r) { return r.info.name == name; });
  if (row == rows.end()) fail("there is no meter {}", name);
  return *row;
}

/// The sum of a meter's channels, in J or W.
double value_of(const MeterRow& row) {
  const std::vector<Reading> readings = row.meter->read();
  return std::accumulate(readings.at(0).values.begin(), readings.at(0).values.end(), 0.0);
}

std::vector<std::string> names_of(const std::vector<MeterRow>& rows) {
  std::vector<std::string> names;
  for (const MeterRow& row : rows) names.push_back(row.info.name);
  return names;
}

struct Case {
  std::string tree;
  std::string meter;
  double value;          ///< in J or W, where the meter is usable
  std::string unusable;  ///< a part of the reason, where it is not
  bool chosen = false;
  std::string device;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.tree << " " << c.meter; }

class FakedTrees : public ::testing::TestWithParam<Case> {};

TEST_P(FakedTrees, GiveTheFigureOrTheReason) {
  const Case& c = GetParam();
  const FakeMachine machine(c.tree);
  const bool named = c.meter.starts_with("shelly:") || c.meter.starts_with("tasmota:");
  const std::vector<MeterRow> rows = list_meters(machine, named ? std::vector{c.meter} : std::vector<std::string>{});
  const MeterRow& row = row_of(rows, c.meter);
  EXPECT_EQ(row.chosen, c.chosen);
  EXPECT_EQ(row.info.device, c.device);
  if (c.unusable.empty()) {
    ASSERT_NE(row.meter, nullptr) << row.unusable;
    EXPECT_NEAR(value_of(row), c.value, 1e-9 * c.value);
    EXPECT_EQ(row.info.channels.size(), row.meter->read().at(0).values.size());
  } else {
    EXPECT_EQ(row.meter, nullptr);
    EXPECT_THAT(row.unusable, HasSubstr(c.unusable));
  }
}

const double kPi5 = 1.1451 * (3.3 * 0.5 + 0.75 * 2.0) + 0.5879;

INSTANTIATE_TEST_SUITE_P(
    Energy, FakedTrees,
    ::testing::Values(
        Case{"rapl", "rapl", 12, "", true, "cpu"}, Case{"gpus", "amdgpu:0", 31, "", true, "gpu 0000:03:00.0"},
        Case{"gpus", "amdgpu:1", 12.5, "", true, "gpu 0000:0a:00.0"},
        Case{"gpus", "amdgpu:2", 0, "neither power1_average nor power1_input", false, "gpu"},
        Case{"gpus", "intel-gpu:0", 900, "", true, "gpu 0000:04:00.0"},
        Case{"gpus", "intel-gpu:1", 77, "", true, "gpu"}, Case{"jetson-orin-nano", "jetson", 6, "", true, "machine"},
        Case{"jetson-orin-nano", "jetson:VDD_CPU_GPU_CV", 2.5, "", false, "rail VDD_CPU_GPU_CV"},
        Case{"jetson-agx-orin", "jetson", 13, "", true, "machine"},
        Case{"jetson-agx-orin", "jetson:VDDQ_VDD2_1V8AO", 0.72, "", false, "rail VDDQ_VDD2_1V8AO"},
        Case{"jetson-tx2", "jetson", 6.5, "", true, "machine"},
        Case{"jetson-tx2", "jetson:VDD_SYS_GPU", 1.5, "", false, "rail VDD_SYS_GPU"},
        Case{"jetson-unknown", "jetson", 0, "which rails of this board together are the whole", false, "machine"},
        Case{"jetson-unknown", "jetson:VDD_NEW", 0.5, "", false, "rail VDD_NEW"},
        Case{"odroid-xu3", "odroid", 3, "", true, "machine"},
        Case{"odroid-xu3", "odroid:GPU", 0.5, "", false, "rail GPU"},
        Case{"odroid-off", "odroid", 0, "echo 1 | sudo tee", false, "machine"},
        Case{"pi5", "pi", kPi5, "", true, "machine"}, Case{"pi5-plain", "pi", kPi5, "", true, "machine"},
        Case{"pi5-rubbish", "pi", 0, "no rail with both", false, "machine"},
        Case{"pi4", "pi", 0, "no sensor of power; measure it with a plug", false, "machine"},
        Case{"pixel", "odpm:gpu", 5.3, "", true, "gpu"}, Case{"pixel", "odpm:cpu", 53, "", true, "cpu"},
        Case{"pixel", "odpm:memory", 35, "", false, "rail memory"}, Case{"pixel", "battery", 2, "", true, "machine"},
        Case{"pixel", "termux-battery", 2, "", false, "machine"},
        Case{"pixel", "dumpsys-battery", 2, "", false, "machine"},
        Case{"phone-milliamperes", "battery", 2, "", true, "machine"},
        Case{"phone-milliamperes", "termux-battery", 0, "pkg install termux-api", false, "machine"},
        Case{"phone-positive", "battery", 2, "", true, "machine"},
        Case{"phone-charging", "battery", 0, "'Charging'", false, "machine"},
        Case{"phone-charging", "termux-battery", 0, "connected to power; unplug it", false, "machine"},
        Case{"phone-charging", "dumpsys-battery", 0, "connected to power; unplug it", false, "machine"},
        Case{"phone-plugged", "battery", 0, "connected to power; unplug it", false, "machine"},
        Case{"phone-plugged", "termux-battery", 0, "instead of 'rubbish'", false, "machine"},
        Case{"phone-plugged", "dumpsys-battery", 0, "status is 'Unknown'", false, "machine"},
        Case{"phone-old-termux", "termux-battery", 0, "update Termux:API", false, "machine"},
        Case{"phone-old-termux", "dumpsys-battery", 0, "neither a power nor a current", false, "machine"},
        Case{"laptop", "battery:BAT0", 9.5, "", true, "machine"},
        Case{"laptop-two", "battery:BAT0", 0, "several batteries", false, "machine"},
        Case{"hwmon", "hwmon:power_meter:power1", 182, "", true, "machine"},
        Case{"hwmon", "hwmon:ina219:power1", 2.5, "", false, "rail ina219:power1"},
        Case{"hwmon", "hwmon:ina219:power1@1-0041", 1.5, "", false, "rail ina219:power1"},
        Case{"hwmon-renumbered", "hwmon:ina219:power1", 2.5, "", false, "rail ina219:power1"},
        Case{"hwmon-renumbered", "hwmon:ina219:power1@1-0041", 1.5, "", false, "rail ina219:power1"},
        Case{"hwmon", "hwmon:amd_energy:Esocket0", 123, "", false, "rail amd_energy:Esocket0"},
        Case{"hwmon", "hwmon:broken:power1", 0, "expected a number instead of 'N/A'", false, "rail broken:power1"},
        Case{"hwmon", "hwmon:broken:empty", 0, "expected a number instead of ''", false, "rail broken:empty"},
        Case{"shelly1", "shelly:192.168.0.7", 23.5, "", true, "machine"},
        Case{"shelly2", "shelly:192.168.0.8", 23.5, "", true, "machine"},
        Case{"shelly2", "shelly:192.168.0.9", 23.5, "", true, "machine"},
        Case{"shelly2", "shelly:192.168.0.1", 0, "does not answer", false, "machine"},
        Case{"tasmota", "tasmota:192.168.0.10", 23.5, "", true, "machine"},
        Case{"tasmota", "tasmota:192.168.0.11", 0, "may be a plug without a meter", false, "machine"},
        Case{"tasmota", "tasmota:192.168.0.12", 0, "expected a JSON object instead of '<html>404", false, "machine"}));

TEST(Readers, PlugsCountTheSameJoules) {
  for (const auto& [tree, meter] :
       {std::pair("shelly1", "shelly:192.168.0.7"), std::pair("shelly2", "shelly:192.168.0.8"),
        std::pair("tasmota", "tasmota:192.168.0.10")}) {
    const FakeMachine machine(tree);
    const std::vector<MeterRow> rows = list_meters(machine, {meter});
    EXPECT_NEAR(row_of(rows, meter).meter->read().at(0).check.value(), 72000, 1e-6) << tree;
  }
}

TEST(Readers, PermissionDeniedSaysHowToAllowIt) {
  FakeMachine machine("rapl");
  machine.failures["/sys/class/powercap/intel-rapl:0/energy_uj"] = EACCES;
  const auto rows = list_meters(machine, {});
  const std::string rapl = "rapl";
  const MeterRow& row = row_of(rows, rapl);
  EXPECT_THAT(row.unusable, AllOf(HasSubstr("intel-rapl:0/energy_uj: Permission denied"), HasSubstr("sudo chmod a+r"),
                                  HasSubstr("SUBSYSTEM==\"powercap\"")));
  EXPECT_FALSE(row.chosen);
}

TEST(Readers, PermissionDeniedOnAPhoneNamesOtherWays) {
  FakeMachine machine("pixel");
  machine.failures["/sys/class/power_supply/battery/status"] = EACCES;
  machine.failures["/sys/bus/iio/devices/iio:device1/enabled_rails"] = EACCES;
  const auto rows = list_meters(machine, {});
  EXPECT_THAT(row_of(rows, "battery").unusable, HasSubstr("install Termux:API"));
  EXPECT_THAT(row_of(rows, "odpm").unusable, HasSubstr("adb root"));
  EXPECT_TRUE(row_of(rows, "termux-battery").chosen);
}

TEST(Readers, CounterWithoutARangeIsRefused) {
  const FakeMachine machine("rapl");
  machine.remove("/sys/class/powercap/intel-rapl:1/max_energy_range_uj");
  EXPECT_THAT(row_of(list_meters(machine, {}), "rapl").unusable, HasSubstr("does not say when the counter wraps"));
}

TEST(Readers, FileThatVanishesOrTurnsToRubbish) {
  FakeMachine machine("rapl");
  const auto rows = list_meters(machine, {});
  Meter& meter = *row_of(rows, "rapl").meter;
  const std::string file = "/sys/class/powercap/intel-rapl:0/energy_uj";
  machine.write(file, "");
  EXPECT_THROW(meter.read(), Error);
  machine.failures[file] = ENODATA;
  EXPECT_THROW(meter.read(), Unreadable);
  machine.failures.clear();
  machine.remove(file);
  EXPECT_THAT([&] { meter.read(); }, testing::ThrowsMessage<NotMeasurable>(HasSubstr("the sensor is gone")));
}

TEST(Readers, BatteryThatTurnsRoundIsRefused) {
  const FakeMachine machine("pixel");
  const auto rows = list_meters(machine, {});
  Meter& meter = *row_of(rows, "battery").meter;
  machine.write("/sys/class/power_supply/battery/current_now", "0");
  EXPECT_THAT([&] { meter.read(); }, testing::ThrowsMessage<Error>(HasSubstr("a current of 0")));
  machine.write("/sys/class/power_supply/battery/current_now", "300000");
  EXPECT_THAT([&] { meter.read(); }, testing::ThrowsMessage<NotMeasurable>(HasSubstr("turned round")));
}

TEST(Readers, BatteryCountsItsChargeAsASecondSource) {
  const FakeMachine machine("pixel");
  const auto rows = list_meters(machine, {});
  Meter& meter = *row_of(rows, "battery").meter;
  const double before = meter.read().at(0).check.value();
  machine.write("/sys/class/power_supply/battery/charge_counter", "2999000");  // 1 mAh at 4 V
  EXPECT_NEAR(meter.read().at(0).check.value() - before, 14.4, 1e-9);
}

TEST(Readers, NamedMeterIsChosenForItsDevice) {
  const FakeMachine machine("pixel");
  const auto rows = list_meters(machine, {"dumpsys-battery"});
  EXPECT_TRUE(row_of(rows, "dumpsys-battery").chosen);
  EXPECT_FALSE(row_of(rows, "battery").chosen);
  EXPECT_TRUE(row_of(rows, "odpm:gpu").chosen);
}

TEST(Readers, UnknownMeterIsAnErrorThatListsTheKnown) {
  const FakeMachine machine("rapl");
  EXPECT_THAT([&] { list_meters(machine, {"rappl"}); },
              testing::ThrowsMessage<Error>(AllOf(HasSubstr("no meter 'rappl'"), HasSubstr("this machine has: rapl"))));
  EXPECT_THROW(list_meters(machine, {"shelly:"}), Error);
}

TEST(Readers, EmptyMachineHasNoMeters) {
  const FakeMachine machine("pi4");
  machine.remove("/proc/device-tree/model");
  EXPECT_THAT(list_meters(machine, {}), IsEmpty());
}

TEST(Readers, DoNotCountAChipTwice) {
  const FakeMachine machine("gpus");
  EXPECT_THAT(names_of(list_meters(machine, {})), Not(Contains(HasSubstr("hwmon"))));
  const FakeMachine laptop("laptop");
  EXPECT_THAT(names_of(list_meters(laptop, {})), testing::ElementsAre("battery:BAT0"));
}

/// A folder that may not be read is no reason to find no meters.
class ForbiddenMachine : public FakeMachine {
 public:
  using FakeMachine::FakeMachine;
  std::vector<std::string> names(const std::string& folder) const override {
    if (folder == "/sys/class/powercap") throw Unreadable(folder, EACCES);
    return FakeMachine::names(folder);
  }
};

TEST(Readers, ForbiddenFolderIsARowOfItsOwn) {
  const ForbiddenMachine machine("rapl");
  EXPECT_THAT(row_of(list_meters(machine, {}), "rapl").unusable, HasSubstr("/sys/class/powercap: Permission denied"));
}

TEST(Csv, NewLinesAreReadingsOfTheirTimes) {
  FakeTime time;
  const FakeMachine machine("pi4");
  const std::string file = "/power.csv";
  machine.write(file, "time,watts\n1800000000.5,10\n1800000001.0,12,a comment\n1800000001.5,1");
  const auto rows = list_meters(machine, {"csv:/power.csv"});
  Meter& meter = *row_of(rows, "csv:/power.csv").meter;
  std::vector<Reading> readings = meter.read();
  // The file ends with a new line here; without one the last line would wait.
  ASSERT_EQ(readings.size(), 3U);
  EXPECT_EQ(readings[1].values, std::vector{12.0});
  EXPECT_NEAR(std::chrono::duration<double>(*readings[1].taken - *readings[0].taken).count(), 0.5, 1e-6);
  EXPECT_THAT(meter.read(), IsEmpty());
}

TEST(Csv, BadFilesAreRefusedWithTheLine) {
  FakeTime time;
  const FakeMachine machine("pi4");
  const auto refusal = [&](const std::string& text) {
    machine.write("/power.csv", text);
    return row_of(list_meters(machine, {"csv:/power.csv"}), "csv:/power.csv").unusable;
  };
  EXPECT_THAT(refusal("watts,time\n"), HasSubstr("power.csv:1: expected 'time,watts' or 'time,joules' instead of"));
  EXPECT_THAT(refusal("time,watts\n1800000000,N/A\n"), HasSubstr("power.csv:2: expected a number instead of 'N/A'"));
  EXPECT_THAT(refusal("time,watts\n1800000000,1\n1800000000,1\n"), HasSubstr("power.csv:3: its time is not later"));
  EXPECT_THAT(refusal("time,watts\n12,1\n"), HasSubstr("power.csv:2: its time is years from now"));
  EXPECT_THAT(refusal("time,watts\n1800000000\n"), HasSubstr("power.csv:2: expected a time, a comma and a value"));
  EXPECT_THAT(row_of(list_meters(machine, {"csv:/none.csv"}), "csv:/none.csv").unusable, HasSubstr("No such file"));
}

TEST(MeterList, TellsPeopleWhatIsThere) {
  FakeTime time;
  FakeMachine machine("pixel");
  machine.failures["/sys/class/power_supply/battery/status"] = EACCES;
  const std::string text = meter_list(machine, {});
  EXPECT_THAT(text, HasSubstr("* termux-battery"));
  EXPECT_THAT(text, HasSubstr("2.0 W"));
  EXPECT_THAT(text, HasSubstr("    unusable: /sys/class/power_supply/battery/status: Permission denied"));
  EXPECT_THAT(text, HasSubstr("Nothing was found of: NVIDIA GPU (NVML), "));
  EXPECT_THAT(meter_list(FakeMachine("pi4"), {}), HasSubstr("its energy is not measurable"));
}

}  // namespace
}  // namespace convoy::energy
