// Tables, CSV files and plots of a study.
#include "study/report.hpp"
#include "tests/support/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace convoy::study {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Row row(const std::string& device, int batch, double image_seconds, double image_joules) {
  Row row{.device = device,
          .batch = batch,
          .filters = "50:500",
          .meter = energy::MeterInfo{.name = "odpm:gpu", .scope = energy::Scope::rail},
          .result = {.ending = Ending::narrow}};
  row.result.trials = {{10, 10 / image_seconds, energy::Joules{10 / image_seconds * image_joules, 0.5}},
                       {10, 10 / image_seconds, energy::Joules{10 / image_seconds * image_joules, 0.5}}};
  row.result.refresh = 0.1;
  row.result.image_flops = 1e9;
  row.result.image_seconds = Estimate{image_seconds, 0.01 * image_seconds};
  row.result.image_joules = Estimate{image_joules, 0.02 * image_joules};
  row.result.no_idle = "idle power: \"frozen\"";
  return row;
}

std::vector<Row> rows() {
  std::vector<Row> rows{row("cpu", 16, 0.01, 0.5), row("cpu", 64, 0.02, 0.2), row("eigen", 16, 0.02, 0.4)};
  Row refused = row("opencl:0", 16, 0.01, 0.1);
  refused.result.image_joules.reset();
  refused.result.trials[0].joules.reset();
  refused.result.trials[1].joules.reset();
  refused.result.refusal = "the battery is charged";
  rows.push_back(refused);
  Row assumed = row("cuda:0", 16, 0.001, 0.01);
  assumed.result.assumed = true;
  assumed.meter.reset();
  assumed.result.refusal = "there is no meter";
  rows.push_back(assumed);
  return rows;
}

TEST(Report, MarksTheParetoFrontOfMeasuredRows) {
  EXPECT_THAT(pareto_front(rows()), ElementsAre(true, true, false, false, false));
}

TEST(Report, WritesARowForEachSetting) {
  const auto table = fields_of(csv_of(rows()));
  ASSERT_EQ(table.size(), 6U);
  const auto field = [&](std::size_t line, const std::string& name) {
    const auto place = std::ranges::find(table[0], name);
    if (place == table[0].end()) return "no column " + name;
    return table[line][place - table[0].begin()];
  };
  for (const auto& line : table) EXPECT_EQ(line.size(), table[0].size());
  EXPECT_EQ(field(1, "device"), "cpu");
  EXPECT_EQ(field(1, "state"), "complete");
  EXPECT_EQ(field(1, "origin"), "measured");
  EXPECT_EQ(field(1, "meter"), "odpm:gpu");
  EXPECT_EQ(field(1, "scope"), "rail");
  EXPECT_EQ(field(1, "images_per_s"), "100");
  EXPECT_EQ(field(1, "joules"), "1000");
  EXPECT_EQ(field(1, "joules_error"), "1");
  EXPECT_EQ(field(1, "joules_per_image_error"), "0.01");
  EXPECT_EQ(field(1, "gflops_per_watt"), "2");
  EXPECT_EQ(field(1, "joules_per_image_above_idle"), "");
  EXPECT_EQ(field(1, "refusal_above_idle"), "\"idle power: \"\"frozen\"\"\"");
  EXPECT_EQ(field(1, "pareto"), "1");
  EXPECT_EQ(field(3, "pareto"), "0");
  EXPECT_EQ(field(4, "origin"), "none");
  EXPECT_EQ(field(4, "joules"), "");
  EXPECT_EQ(field(4, "joules_per_image"), "");
  EXPECT_EQ(field(4, "refusal"), "\"the battery is charged\"");
  EXPECT_EQ(field(5, "origin"), "assumed");
  EXPECT_EQ(field(5, "meter"), "");
  EXPECT_EQ(std::ranges::count(trials_csv_of(rows()), '\n'), 11);
}

TEST(Report, TrialsHaveWrapsAndGapsWhereTheyWereMeasured) {
  std::vector<Row> some{rows()[0], rows()[3]};
  some[0].result.trials[1].wraps = 2;
  some[0].result.trials[1].gaps = 3;
  some[0].result.trials[1].gap_seconds = 0.25;
  const std::string text = trials_csv_of(some);
  EXPECT_THAT(text, AllOf(HasSubstr(",joules,joules_error,wraps,gaps,gap_seconds\n"), HasSubstr(",500,0.5,0,0,0\n"),
                          HasSubstr(",500,0.5,2,3,0.25\n"), HasSubstr(",1000,,,,,\n")));
}

TEST(Report, TheTableHasEightyColumnsAndReasons) {
  std::istringstream lines(table_head());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  for (const Row& each : rows()) {
    const std::string text = table_row(each, true);
    EXPECT_LE(text.find('\n'), 80U) << text;
  }
  EXPECT_THAT(table_row(rows()[3], true),
              AllOf(HasSubstr("energy not measurable: the battery is charged"), Not(HasSubstr(" 0 "))));
  EXPECT_THAT(table_row(rows()[4], true), HasSubstr("Joules are assumed"));
  EXPECT_THAT(table_row(rows()[4], false), AllOf(HasSubstr("Joules are assumed"), Not(HasSubstr("there is no meter"))));
  Row interrupted = rows()[0];
  interrupted.result.ending = Ending::interrupted;
  EXPECT_THAT(table_row(interrupted, true), HasSubstr("interrupted after 2 trials"));
}

TEST(Report, PlotsWhatHasAnEnergy) {
  const std::string script = plot_of(rows(), "pareto.png");
  EXPECT_THAT(script, AllOf(HasSubstr("'cpu (odpm:gpu, rail, measured)'"), HasSubstr("'cuda:0 (assumed power)'"),
                            HasSubstr("'Pareto front'"), Not(HasSubstr("opencl:0"))));
  EXPECT_EQ(plot_of({rows()[3]}, "pareto.png"), "");
}

}  // namespace
}  // namespace convoy::study
