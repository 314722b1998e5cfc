// Tests the book of a search's results on disk, which may be cut off or damaged, and what is made of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "master/jobs/trial_book.hpp"
#include "master/jobs/trial_report.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TrialBooks : public testing::Test {
 protected:
  RungResult result(int trial, int rung, double accuracy) const {
    return {.trial = trial,
            .rung = rung,
            .setting = {"0.1", "x,\"y\""},
            .images = 10,
            .accuracy = accuracy,
            .loss = 0.25,
            .why = "",
            .seconds = 1.5};
  }
  RungResult diverged(int trial, int rung) const {
    RungResult result{.trial = trial, .rung = rung, .setting = {"0.5", "z"}, .outcome = TrialOutcome::diverged};
    result.why = "training diverged: the loss of step 3 is nan";
    return result;
  }
  std::string file() const { return folder_.path() + "/trials.jsonl"; }
  void append(const std::string& text) const { std::ofstream(file(), std::ios::app) << text; }
  std::string error_of_reading() const {
    try {
      TrialBook(folder_.path(), space_, ladder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  Space space_ = parse_space(
      "net: n\ntrials: 9\nrungs: {first: 10}\nparameters: {a.b: {linear: [0, 1]}, c.d: {choice: ['x,\"y\"', z]}}\n",
      "s");
  Ladder ladder_ = ladder_of(space_, 90);
};

TEST_F(TrialBooks, GiveBackWhatWasAdded) {
  {
    TrialBook book(folder_.path(), space_, ladder_);
    book.add(result(1, 0, 1.0 / 3.0));
    book.add(diverged(2, 0));
    book.add(result(1, 1, 0.75));
  }
  const TrialBook book(folder_.path(), space_, ladder_);
  ASSERT_EQ(book.results().size(), 3U);
  EXPECT_EQ(book.results()[0].accuracy, 1.0 / 3.0);
  EXPECT_EQ(book.results()[0].setting, (TrialSetting{"0.1", "x,\"y\""}));
  EXPECT_EQ(book.results()[1].outcome, TrialOutcome::diverged);
  EXPECT_TRUE(std::isnan(book.results()[1].loss));
  EXPECT_THAT(book.results()[1].why, HasSubstr("step 3"));
  EXPECT_EQ(book.results()[2].rung, 1);
  EXPECT_THAT(text_of(file()), HasSubstr(R"("outcome":"diverged","accuracy":null,"loss":null)"));
}

TEST_F(TrialBooks, ForgetALineThatWasCutOff) {
  TrialBook(folder_.path(), space_, ladder_).add(result(1, 0, 0.5));
  const std::string whole = text_of(file());
  append(whole.substr(0, whole.size() / 2));
  {
    TrialBook book(folder_.path(), space_, ladder_);
    EXPECT_EQ(book.results().size(), 1U);
    book.add(diverged(2, 0));
  }
  EXPECT_EQ(TrialBook(folder_.path(), space_, ladder_).results().size(), 2U);
}

TEST_F(TrialBooks, AreOfOneMasterAtATime) {
  const TrialBook book(folder_.path(), space_, ladder_);
  EXPECT_THAT(error_of_reading(), HasSubstr("another master works on this search"));
}

TEST_F(TrialBooks, RefuseWhatIsNotOfThisSearch) {
  const std::string good = line_of(space_, result(1, 0, 0.5)) + "\n";
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string line = good;
    line.replace(line.find(old), old.size(), now);
    return line;
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"x\n", ":1: "},
      {"[]\n", ":1: "},
      {"{}\n", ":1: "},
      {std::string(100000, '[') + "\n", ":1: "},
      {with("\"trial\":1", "\"trial\":2"), "rung 1 of trial 2 is out of turn"},
      {with("\"trial\":1", "\"trial\":-1"), "its trial is no whole number"},
      {with("\"rung\":1", "\"rung\":2"), "rung 2 of trial 1 is out of turn"},
      {with("\"rung\":1", "\"rung\":1e99"), "its rung is no whole number"},
      {with("finished", "won"), "its outcome is 'won'"},
      {with("0.5", "null"), "has no accuracy"},
      {with("\"0.1\"", "\"7\""), "a.b is 7"},
      {with("\"0.1\"", "0.1"), ":1: "},
      {with("a.b", "a.c"), ":1: "},
      {with("\"images\":10", "\"images\":-10"), "its images is no whole number"},
      {good + good, ":2: the line is not a result of this search: rung 1 of trial 1 is out of turn"},
      {good + "\n" + good, ":2: "}};
  for (const auto& [text, expected] : cases) {
    std::ofstream(file(), std::ios::trunc) << text;
    EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("trials.jsonl"), HasSubstr(expected))) << text.substr(0, 300);
  }
  std::ofstream(file(), std::ios::trunc) << line_of(space_, diverged(1, 0)) << "\n" << with("\"rung\":1", "\"rung\":2");
  EXPECT_THAT(error_of_reading(), HasSubstr("out of turn")) << "a trial that diverged does not go on";
}

TEST_F(TrialBooks, MakeTablesWithTheBestFirst) {
  const RungResults results{result(1, 0, 0.5), diverged(2, 0), result(3, 0, 0.75), result(3, 1, 0.6),
                            result(4, 0, 0.6)};
  const auto best = best_of(results, Metric::accuracy);
  ASSERT_EQ(best.size(), 3U) << "a trial that diverged is never among the best";
  EXPECT_EQ(best[0]->trial, 3);
  EXPECT_EQ(best[0]->rung, 1) << "the last result of a trial counts";
  EXPECT_EQ(best[1]->trial, 4);
  const auto table = best_table(space_, ladder_, results);
  ASSERT_EQ(table.size(), 4U);
  EXPECT_THAT(table[1], AllOf(HasSubstr("2/3"), HasSubstr("60.00 %"), HasSubstr("a.b=0.1")));
  EXPECT_EQ(best_table(space_, ladder_, {diverged(1, 0)}).size(), 1U);
  EXPECT_THAT(rung_line(space_, ladder_, diverged(2, 0)),
              AllOf(HasSubstr("trial 2"), HasSubstr("diverged"), HasSubstr("nan")));
  const auto rows = fields_of(to_csv(space_, results));
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[2][3], "diverged");
  EXPECT_EQ(rows[2][4], "") << "NaN is no number of a table";
}

TEST_F(TrialBooks, MakeAScriptForEachParameter) {
  const std::string script = slice_script(space_, ladder_, {result(1, 0, 0.5), diverged(2, 0)});
  EXPECT_THAT(script, AllOf(HasSubstr("'a.b'"), HasSubstr("'c.d'"), HasSubstr("'x,\"y\"' 0"), HasSubstr("0.1 50 1\n"),
                            HasSubstr("0.5 NaN 1\n"), Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace convoy
