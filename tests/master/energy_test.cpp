// The energy of members becomes that of the run: what is measured, declared and assumed stays apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/files.hpp"
#include "master/cluster/energy_book.hpp"
#include "master/report/energy_json.hpp"
#include "master/report/energy_total.hpp"
#include "master/report/record_observers.hpp"
#include "master/report/text_observer.hpp"
#include "tests/master/made_up_run.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

MachineEnergy measured(double joules, double error) {
  return {.meter = "rapl",
          .scope = "package",
          .origin = "measured",
          .seconds = 10,
          .compute = 0.5 * joules,
          .transfer = 0.2 * joules,
          .wait = 0.3 * joules,
          .error = error,
          .watts = joules / 10};
}

MachineEnergy refused(const std::string& why) { return {.refusal = why}; }

EnergyReport report_of(std::vector<MemberEnergy> members) { return {.members = std::move(members), .seconds = 10}; }

TEST(EnergyBook, KeepsTheLastOfEachSlave) {
  EnergyBook book;
  book.take("id1", "b", measured(1, 0.1));
  book.take("id2", "a", measured(5, 0.1));
  book.take("id1", "b", measured(2, 0.1));
  const auto members = book.members();
  ASSERT_EQ(members.size(), 2U);
  EXPECT_EQ(members[0].member, "a");
  EXPECT_EQ(members[1].energy.joules(), 2);
}

TEST(EnergyBook, AddsTheTimesOfASlaveThatCameBack) {
  EnergyBook book;
  book.take("id1", "a", measured(100, 3));
  book.take("id2", "a", measured(50, 4));
  const MachineEnergy sum = book.members().at(0).energy;
  EXPECT_NEAR(sum.joules(), 150, 1e-9);
  EXPECT_NEAR(sum.compute, 75, 1e-9);
  EXPECT_NEAR(sum.seconds, 20, 1e-9);
  EXPECT_NEAR(sum.error, 5, 1e-9);
  book.take("id3", "a", refused("charging"));
  const MachineEnergy not_all = book.members().at(0).energy;
  EXPECT_FALSE(not_all.measured());
  EXPECT_THAT(not_all.refusal, HasSubstr("charging"));
}

TEST(EnergyBook, AddsTheWrapsAndGapsOfASlaveThatCameBack) {
  EnergyBook book;
  MachineEnergy first = measured(100, 3);
  first.wraps = 2;
  first.gaps = 3;
  first.gap_seconds = 0.5;
  first.refresh = 0.2;
  MachineEnergy second = first;
  second.gaps = 1;
  second.refresh = 0.1;
  book.take("id1", "a", first);
  book.take("id2", "a", second);
  const MachineEnergy sum = book.members().at(0).energy;
  EXPECT_EQ(sum.wraps, 4U);
  EXPECT_EQ(sum.gaps, 4U);
  EXPECT_EQ(sum.gap_seconds, 1);
  EXPECT_EQ(sum.refresh, 0.1);
}

TEST(EnergyBook, TextsOfSlavesAreSafeToPrint) {
  EnergyBook book;
  book.take("id1", "a", refused("\x1b[2Jgone\n" + std::string(5000, 'x')));
  const std::string text = book.members().at(0).energy.refusal;
  EXPECT_THAT(text, HasSubstr("\\x1b[2Jgone\\x0a"));
  EXPECT_LT(text.size(), 600U);
}

TEST(EnergyTotal, AddsWhatIsMeasured) {
  EnergyReport report = report_of({{"a", measured(300, 3)}, {"b", refused("no meter")}, {"c", measured(100, 4)}});
  report.members[0].energy.idle_watts = 10;
  const EnergyTotal total = total_of(report);
  EXPECT_EQ(total.members, 3);
  EXPECT_EQ(total.measured, 2);
  EXPECT_NEAR(total.joules, 400, 1e-9);
  EXPECT_NEAR(total.error, 5, 1e-9);
  EXPECT_NEAR(total.compute + total.transfer + total.wait, 400, 1e-9);
  EXPECT_NEAR(total.watts, 40, 1e-9);
  EXPECT_EQ(total.with_idle, 1);
  EXPECT_NEAR(total.above_idle, 200, 1e-9);
  EXPECT_EQ(total.declared, 0);
  EXPECT_EQ(total.assumed, 0);
  EXPECT_EQ(watts_now(report), "40 W of 2/3 members");
}

TEST(EnergyTotal, DeclaredAndAssumedStayApart) {
  EnergyReport report = report_of({{"a", measured(300, 3)}, {"b", refused("no meter")}});
  report.switch_watts = 5;
  report.assumed_watts = 20;
  const EnergyTotal total = total_of(report);
  EXPECT_NEAR(total.joules, 300, 1e-9);
  EXPECT_NEAR(total.declared, 50, 1e-9);
  EXPECT_NEAR(total.assumed, 200, 1e-9);
  EXPECT_NEAR(total.all(), 550, 1e-9);
  const auto lines = energy_lines(report, {.images = 100, .flops = 1e12, .seconds = 10});
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("energy: 300 J (-+ 1 %) measured on 1 of 2 members"),
                                    HasSubstr("+ 50 J declared for network gear + 200 J assumed"))));
  EXPECT_THAT(lines, Contains(HasSubstr("not measurable: no meter; assumed 20 W (--assume-watts)")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("5.5 J/image"), HasSubstr("0.1818 images/J"),
                                    HasSubstr("1.818 GFLOP/s/W"), HasSubstr("energy-delay product 5500 J s"),
                                    HasSubstr("with what is declared and assumed"))));
}

TEST(EnergyTotal, FiguresOfPartsSaySo) {
  const EnergyReport report = report_of({{"a", measured(300, 3)}, {"b", refused("no meter")}});
  EXPECT_THAT(energy_lines(report, {.images = 100, .seconds = 10}),
              Contains(AllOf(HasSubstr("3 J/image"), HasSubstr("without the members that are not measurable"))));
  const EnergyReport whole = report_of({{"a", measured(300, 3)}});
  EXPECT_THAT(energy_lines(whole, {.images = 100, .seconds = 10}), Not(Contains(HasSubstr("without the members"))));
  EXPECT_EQ(watts_now(whole), "30 W");
}

/// Nothing measured is neither 0 J nor a line in every run of people without meters.
TEST(EnergyTotal, NothingMeasuredIsNoNumber) {
  const EnergyReport report = report_of({{"a", refused("no meter")}});
  EXPECT_THAT(energy_lines(report, {.images = 100, .seconds = 10}), IsEmpty());
  EXPECT_EQ(watts_now(report), "");
  EnergyReport assumed = report;
  assumed.assumed_watts = 7;
  EXPECT_THAT(energy_lines(assumed, {.images = 100, .seconds = 10}),
              Contains(HasSubstr("energy: nothing is measured + 70 J assumed")));
}

/// A meter that tells nothing yet, as in a short run, is a line with the reason; a machine without a meter is none.
TEST(EnergyTotal, AMeterThatRefusesSaysWhy) {
  EnergyReport report = report_of({{"a", {.meter = "rapl", .refusal = "0.3 s are too short"}}});
  EXPECT_THAT(
      energy_lines(report, {.images = 100, .seconds = 0.3}),
      testing::ElementsAre("energy: nothing is measured",
                           testing::AllOf(HasSubstr("  a "), HasSubstr("not measurable: 0.3 s are too short"))));
}

TEST(EnergyTotal, WrapsAndGapsAreTold) {
  EnergyReport report = report_of({{"a", measured(300, 3)}, {"b", measured(100, 4)}, {"c", refused("no meter")}});
  MachineEnergy& a = report.members[0].energy;
  a.refresh = 0.005;
  a.wraps = 2;
  a.gaps = 1;
  a.gap_seconds = 0.3;
  report.members[1].energy.refresh = 2;
  EXPECT_THAT(energy_lines(report, {.images = 100, .seconds = 10}),
              AllOf(Contains(HasSubstr("rapl (package, measured); a new value each 5 ms, 2 wraps, 1 gap (0.3 s)")),
                    Contains(testing::EndsWith("rapl (package, measured); a new value each 2 s"))));
  report.members[1].energy.wraps = 1;
  const auto json = energy_json(report, {.images = 100, .seconds = 10});
  EXPECT_EQ(json["members"][0]["refresh"], 0.005);
  EXPECT_EQ(json["members"][0]["wraps"], 2);
  EXPECT_EQ(json["members"][0]["gaps"], 1);
  EXPECT_EQ(json["members"][0]["gap_seconds"], 0.3);
  EXPECT_FALSE(json["members"][2].contains("gaps"));
  EXPECT_EQ(json["wraps"], 3);
  EXPECT_EQ(json["gaps"], 1);
  EXPECT_EQ(json["gap_seconds"], 0.3);
  EXPECT_EQ(json["joules_per_image"], 4);
  EXPECT_FALSE(json.contains("above_idle_per_image"));
  a.idle_watts = 10;
  EXPECT_EQ(energy_json(report, {.images = 100, .seconds = 10})["above_idle_per_image"], 2);
}

EnergyReport some_energy() {
  return {
      .members = {{"slave-1", {.meter = "rapl", .seconds = 2, .compute = 30, .wait = 12.5, .error = 0.5, .watts = 21}},
                  {"slave-2", {.refusal = "no meter"}}},
      .seconds = 2};
}

TEST(TextObserver, ShowsThePowerNowAndTheEnergyAtTheEnd) {
  Memory memory;
  const auto observer = make_text_observer({.to = memory.stream(), .seconds_between = 0.0});
  observer->on_start(start_of());
  StepReport step = step_of(1);
  step.energy = some_energy();
  observer->on_step(step);
  EXPECT_THAT(memory.text(), (HasSubstr("  21 W of 1/2 members  ")));
  RunEnd end = kEnd;
  end.step = 10;
  end.energy = some_energy();
  observer->on_end(end);
  EXPECT_THAT(memory.text(), (HasSubstr("energy: 42.5 J (-+ 1.2 %) measured on 1 of 2 members")));
  EXPECT_THAT(memory.text(), (HasSubstr("  slave-2          not measurable: no meter")));
  EXPECT_THAT(memory.text(), (HasSubstr("J/image")));
}

TEST(JsonObserver, TellsThePowerOfAStepAndTheEnergyOfTheRun) {
  Memory memory;
  const auto observer = make_json_observer(memory.stream());
  observer->on_start(start_of());
  StepReport step = step_of(1);
  step.energy = some_energy();
  observer->on_step(step);
  RunEnd end = kEnd;
  end.step = 10;
  end.energy = some_energy();
  observer->on_end(end);
  const std::vector<nlohmann::json> events = events_in(memory.text());
  EXPECT_EQ(events[1]["energy"]["watts"], 21);
  EXPECT_EQ(events[1]["energy"]["measured_members"], 1);
  EXPECT_EQ(events[2]["energy"]["joules"], 42.5);
  EXPECT_EQ(events[2]["energy"]["energy_delay_product"], 42.5 * 7);
  EXPECT_GT(events[2]["energy"]["joules_per_image"].get<double>(), 0);
}

/// What an epoch has measured, declared and assumed stands in columns of its own.
TEST(FileObserver, KeepsTheEnergyOfEachEpoch) {
  const TemporaryFolder folder;
  EpochReport epoch = kEpoch;
  epoch.energy = {
      .members = {{"a", {.meter = "rapl", .seconds = 2, .compute = 30, .transfer = 10, .wait = 2.5, .error = 0.5}},
                  {"b", {.refusal = "no meter"}}},
      .switch_watts = 5,
      .assumed_watts = 20,
      .seconds = 2};
  epoch.energy.members[0].energy.wraps = 7;
  epoch.energy.members[0].energy.gaps = 2;
  epoch.energy.members[0].energy.gap_seconds = 0.25;
  make_file_observer(folder.path())->on_epoch(epoch);
  EXPECT_THAT(read_text(folder.path() + "/results.csv"), AllOf(HasSubstr(",assumed_joules,wraps,gaps,gap_seconds\n"),
                                                               HasSubstr(",0.01,42.5,0.5,1,2,10,40,7,2,0.25\n")));
  const nlohmann::json energy = events_in(read_text(folder.path() + "/events.jsonl")).at(0)["energy"];
  EXPECT_EQ(energy["joules"], 42.5);
  EXPECT_EQ(energy["members"][0]["wait"], 2.5);
  EXPECT_EQ(energy["members"][1]["not_measurable"], "no meter");
  EXPECT_EQ(energy["members"][1]["assumed_watts"], 20);
  EXPECT_FALSE(energy["members"][1].contains("joules"));
  EXPECT_EQ(energy["declared_joules"], 10);
  EXPECT_EQ(energy["assumed_joules"], 40);
}

}  // namespace
}  // namespace convoy
