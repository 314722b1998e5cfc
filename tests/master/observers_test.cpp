// What observers make of a run that is made up: text on a terminal and in a pipe, JSON, the records and the curves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/files.hpp"
#include "master/report/plot_observer.hpp"
#include "master/report/record_observers.hpp"
#include "master/report/text_observer.hpp"
#include "tests/master/made_up_run.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// What a terminal of so many columns shows of a text, with all that has scrolled out of it: it breaks long lines, and
/// knows the few sequences that observers use.
std::vector<std::string> screen(const std::string& text, std::size_t columns) {
  std::vector<std::string> rows{""};
  std::size_t row = 0;
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      column = 0;
    } else if (text[i] == '\n') {
      column = 0;
      if (++row == rows.size()) rows.emplace_back();
    } else if (text[i] == '\x1b') {
      const std::size_t end = text.find_first_of("AJ", i);
      if (text[end] == 'J') {
        rows.resize(row + 1);
        rows[row].resize(column);
      } else {
        row -= std::stoul(text.substr(i + 2));
      }
      i = end;
    } else {
      if (column == columns) {
        column = 0;
        if (++row == rows.size()) rows.emplace_back();
      }
      rows[row].resize(std::max(rows[row].size(), column + 1), ' ');
      rows[row][column++] = text[i];
    }
  }
  return rows;
}

/// Text on a terminal that is `columns` wide at present.
class Terminal {
 public:
  explicit Terminal(std::size_t columns, std::size_t rows = 24) : columns(columns), rows(rows) {}
  std::vector<std::string> shown() { return screen(memory_.text(), columns); }

  std::size_t columns;
  std::size_t rows;

 private:
  Memory memory_;

 public:
  std::unique_ptr<Observer> observer = make_text_observer({.to = memory_.stream(),
                                                           .size =
                                                               [this] {
                                                                 return TerminalSize{columns, rows};
                                                               },
                                                           .seconds_between = 0.0});
};

TEST(TextObserver, RedrawsItsLinesInPlaceOn80Columns) {
  Terminal terminal(80);
  terminal.observer->on_start(start_of());
  const std::size_t before = terminal.shown().size() - 1;
  for (long step = 1; step <= 3; ++step) terminal.observer->on_step(step_of(step));
  const std::vector<std::string> live = terminal.shown();
  ASSERT_EQ(live.size(), before + 3) << "a line of the run and one of each slave";
  EXPECT_EQ(live[before], "epoch 1/10  step 3/120  loss 1.5000  accuracy 50.0 %  2 min 05 s left");
  EXPECT_EQ(live[before + 1], "  slave-1          share  50 %, busy  90 %, sends 12.5 MB/s, receives  100 MB/s");
  EXPECT_EQ(live[before + 2], "  slave-2          share  50 %, busy  50 %, sends  120 MB/s, receives  0.1 MB/s");
  terminal.observer->on_plan(start_of(52, 48).plan);
  terminal.observer->on_step(step_of(4));
  EXPECT_THAT(terminal.shown(), Contains("shares: slave-1 52 %, slave-2 48 %"));
  EXPECT_THAT(terminal.shown().back(), HasSubstr("slave-2          share  48 %"));
  terminal.observer->on_epoch(kEpoch);
  terminal.observer->on_end(kEnd);
  const std::vector<std::string> all = terminal.shown();
  EXPECT_THAT(all, Contains("epoch 1/10: training loss 1.0557, accuracy 63.55 %"));
  EXPECT_THAT(all, Contains("  test loss 0.1049, accuracy 97.60 %; 2807 images/s, 2 s"));
  EXPECT_THAT(all, Contains("  slave-2           48.0 %      25 %      25 %    50 %"));
  EXPECT_THAT(all, Not(Contains(HasSubstr("step 4/120")))) << "nothing is left of the live lines";
  for (const std::string& row : all) EXPECT_LT(row.size(), 80U) << row;
}

/// The names are as long as those that slaves take from a host, and members share the samples of two stages.
TEST(TextObserver, KeepsLongNamesAndStagesOn80Columns) {
  Terminal terminal(80);
  RunStart start = start_of();
  start.data = "/home/somebody/data/cifar-10-batches-bin";
  start.stages.push_back(start.stages[0]);
  start.stages[1].name = "conv2";
  start.plan.stages.push_back(start.plan.stages[0]);
  ASSERT_TRUE(cut_by_samples(start.plan, start.stages, 2, {1.0, 1.0}));
  start.plan.members = {"somebodys-laptop-123456", "raspberrypi-2718"};
  terminal.observer->on_start(start);
  StepReport step = step_of(1);
  for (std::size_t m = 0; m < 2; ++m) step.times[m].member = start.plan.members[m];
  terminal.observer->on_step(step);
  EXPECT_THAT(terminal.shown(),
              testing::ElementsAre("net glyphs: 253514 parameters, batch 50, 10 epochs of 6000 images",
                                   "  data /home/somebody/data/cifar-10-batches-bin",
                                   "  somebodys-laptop-123456  50.0 % of the work",
                                   "    filters: conv1 100/100 in 25/50 samples, conv2 100/100 in 25/50 samples",
                                   "  raspberrypi-2718  50.0 % of the work; filters: conv1 100/100 in 25/50 samples",
                                   "    conv2 100/100 in 25/50 samples",
                                   "epoch 1/10  step 1/120  loss 1.5000  accuracy 50.0 %  2 min 05 s left",
                                   "  somebodys-laptop-123456 share  50 %, busy  90 %,  112 MB/s",
                                   "  raspberrypi-2718 share  50 %, busy  50 %, sends  120 MB/s, receives  0.1 MB/s"));
}

TEST(TextObserver, GivesNoShareToWhoHasGone) {
  for (const int replicas : {0, 2}) {
    Terminal terminal(80);
    RunStart start = start_of();
    start.replicas = replicas;
    terminal.observer->on_start(start);
    Plan plan = start.plan;
    plan.members = {"slave-3", "slave-2"};
    terminal.observer->on_plan(plan);
    terminal.observer->on_step(step_of(1));
    EXPECT_THAT(terminal.shown(), Not(Contains(HasSubstr("  slave-1          share"))));
    EXPECT_THAT(terminal.shown().back(), HasSubstr("slave-2          share  50 %"));
    terminal.observer->on_end(kEnd);
    EXPECT_THAT(terminal.shown(), Contains("  slave-1             gone      50 %      10 %    40 %"));
    EXPECT_THAT(terminal.shown(), Contains("  slave-2           50.0 %      25 %      25 %    50 %"));
    terminal.observer->on_plan(start.plan);
    terminal.observer->on_step(step_of(2));
    EXPECT_THAT(terminal.shown(), Contains(HasSubstr("  slave-1          share  50 %"))) << "it has come back";
  }
}

/// The mean over the steps of this call, of all slaves together; members that share each batch exchange no weights in
/// steps.
TEST(TextObserver, TellsWhatReplicasCost) {
  RunEnd end = kEnd;
  end.step = 30;
  end.times[0].states_sent = 4e6;
  end.times[1].states_sent = 6e6;
  end.times[1].states_received = 50e6;
  RunStart start = start_of();
  start.first_step = 10;
  for (const int replicas : {0, 2}) {
    Terminal terminal(80);
    start.replicas = replicas;
    terminal.observer->on_start(start);
    terminal.observer->on_end(end);
    const auto cost = Contains("weights and gradients in a step: slaves receive 2.50 MB and send 0.50 MB");
    if (replicas == 0) {
      EXPECT_THAT(terminal.shown(), Not(cost));
    } else {
      EXPECT_THAT(terminal.shown(), cost);
    }
  }
}

TEST(TextObserver, ShowsMoreOnAWideTerminalAndCopesWhenItIsMadeNarrow) {
  Terminal terminal(120);
  terminal.observer->on_start(start_of());
  terminal.observer->on_step(step_of(1));
  EXPECT_THAT(terminal.shown(), Contains("epoch 1/10  step 1/120  loss 1.5000  accuracy 50.0 %  2807 images/s  "
                                         "2 min 05 s left"));
  EXPECT_EQ(
      terminal.shown().back(),
      "  slave-2          share  50 %, busy  50 %, sends  120 MB/s, receives  0.1 MB/s, transfer 10 %, waiting 40 %");
  terminal.columns = 40;
  terminal.observer->on_step(step_of(2));
  std::vector<std::string> shown = terminal.shown();
  ASSERT_GE(shown.size(), 3U);
  EXPECT_EQ(shown[shown.size() - 3], "epoch 1/10  step 2/120  2 min 05 s left");
  EXPECT_EQ(shown.back().size(), 39U);
  EXPECT_THAT(shown, Not(Contains(HasSubstr("step 1/120")))) << "the old lines, which had been broken, are gone";
  terminal.rows = 3;
  terminal.observer->on_step(step_of(3));
  shown = terminal.shown();
  EXPECT_EQ(shown.back(), "  and 2 more") << "a terminal of few rows would scroll";
  EXPECT_THAT(shown, Not(Contains(HasSubstr("step 2/120"))));
}

TEST(TextObserver, WritesPlainLinesIntoAPipe) {
  Memory memory;
  {
    const auto observer = make_text_observer({.to = memory.stream(), .size = {}, .seconds_between = 0.0});
    observer->on_start(start_of());
    observer->on_step(step_of(1));
    observer->on_test({.tested = 50, .images = 1000, .accuracy = 0.5, .seconds_left = 3.0});
    observer->on_epoch(kEpoch);
    RunEnd end = kEnd;
    end.how = "interrupted";
    end.text = "interrupted after step 1 of 1200";
    end.go_on = "convoy-master train --resume runs/glyphs-1";
    observer->on_end(end);
  }
  const std::string text = memory.text();
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  for (const std::string line :
       {"net glyphs: 253514 parameters, batch 50, 10 epochs of 6000 images; data glyphs\n",
        "  slave-1           50.0 % of the work; filters: conv1 50/100\n",
        "epoch 1/10  step 1/120  loss 1.5000  accuracy 50.0 %  2807 images/s  2 min 05 s left\n",
        "tested 50 of 1000 images  accuracy 50.0 %  3 s left\n",
        "epoch 1/10: training loss 1.0557, accuracy 63.55 %; test loss 0.1049, accuracy 97.60 %; 2807 images/s, 2 s\n",
        "interrupted after step 1 of 1200\n", "run folder: runs/glyphs-1\n",
        "go on with: convoy-master train --resume runs/glyphs-1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(TextObserver, TellsTheSamplesOfMembersThatShareThem) {
  Memory memory;
  RunStart start = start_of();
  EXPECT_TRUE(cut_by_samples(start.plan, start.stages, 1, {3.0, 2.0}));
  make_text_observer({.to = memory.stream(), .size = {}, .seconds_between = 0.0})->on_start(start);
  EXPECT_THAT(memory.text(),
              HasSubstr("slave-1           60.0 % of the work; filters: conv1 100/100 in 30/50 samples\n"));
}

TEST(TextObserver, TellsOfMovedSharesAndOfTheBestEpoch) {
  Memory memory;
  {
    const auto observer = make_text_observer({.to = memory.stream(), .size = {}, .seconds_between = 0.0});
    RunStart start = start_of();
    start.first_step = 240;
    observer->on_start(start);
    observer->on_notice("slave \x1b[2J joins");
    observer->on_plan(start_of(75, 25).plan);
    RunEnd end = kEnd;
    end.best_epoch = 3;
    end.best_accuracy = 0.98;
    observer->on_end(end);
  }
  const std::string text = memory.text();
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a slave's words do not reach the terminal as sequences";
  for (const std::string line :
       {"resuming after step 240\n", "[2J joins\n", "shares: slave-1 75 %, slave-2 25 %\n", "finished in 7 s\n",
        "test accuracy 97.60 %; the best, 98.00 %, was that of epoch 3: best.safetensors\n",
        "  slave-1           75.0 %      50 %      10 %    40 %\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

void tell_all(Observer& observer) {
  observer.on_start(start_of());
  observer.on_notice(
      "on each further machine run: CONVOY_KEY=0123abcd convoy-slave tcp://h:1; or convoy-slave --key 0123abcd");
  observer.on_step(step_of(1));
  observer.on_plan(start_of(52, 48).plan);
  observer.on_epoch(kEpoch);
  observer.on_checkpoint("runs/glyphs-1/checkpoint.safetensors", 120);
  observer.on_end(kEnd);
}

TEST(JsonObserver, WritesAnObjectForEachEvent) {
  Memory memory;
  const auto observer = make_json_observer(memory.stream());
  tell_all(*observer);
  const std::vector<nlohmann::json> events = events_in(memory.text());
  ASSERT_EQ(events.size(), 7U);
  const std::vector<std::string> names{"start", "notice", "step", "plan", "epoch", "checkpoint", "end"};
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(events[i]["event"], names[i]);
  EXPECT_EQ(events[0]["members"][1]["filters"]["conv1"], 50);
  EXPECT_EQ(events[2]["times"][0]["compute"], 0.9);
  EXPECT_EQ(events[2]["times"][1]["sent"], 2.1e6);
  EXPECT_EQ(events[2]["times"][0]["received"], 2e6);
  EXPECT_EQ(events[2]["times"][1]["states_sent"], 3e5);
  EXPECT_EQ(events[2]["times"][1]["states_received"], 7.0);
  EXPECT_EQ(events[3]["members"][0]["share"], 0.52);
  EXPECT_EQ(events[4]["test_accuracy"], 0.976);
  EXPECT_EQ(events[5]["step"], 120);
  EXPECT_EQ(events[6]["how"], "finished");
  EXPECT_FALSE(events[6].contains("go_on"));
}

TEST(JsonObserver, SaysHowToGoOnAndWhichEpochWasBest) {
  Memory memory;
  const auto observer = make_json_observer(memory.stream());
  observer->on_end({.how = "interrupted",
                    .text = "interrupted after step 1 of 1200",
                    .go_on = "convoy-master train --resume runs/glyphs-1",
                    .best_epoch = 3,
                    .best_accuracy = 0.98});
  const nlohmann::json end = events_in(memory.text()).at(0);
  EXPECT_EQ(end["text"], "interrupted after step 1 of 1200");
  EXPECT_EQ(end["go_on"], "convoy-master train --resume runs/glyphs-1");
  EXPECT_EQ(end["best_epoch"], 3);
  EXPECT_EQ(end["best_accuracy"], 0.98);
  EXPECT_FALSE(end.contains("test_accuracy")) << "no epoch ended";
}

TEST(FileObserver, KeepsARowForEachEpochAndNoKeys) {
  const TemporaryFolder folder;
  {
    const auto observer = make_file_observer(folder.path());
    tell_all(*observer);
  }
  make_file_observer(folder.path())->on_epoch(kEpoch);
  const std::string events = read_text(folder.path() + "/events.jsonl");
  EXPECT_EQ(events_in(events).size(), 8U);
  EXPECT_THAT(events, testing::AllOf(HasSubstr("CONVOY_KEY=KEY convoy-slave"), HasSubstr("--key KEY")));
  EXPECT_THAT(events, Not(HasSubstr("0123abcd")));
  // Without a meter the joules are empty, and no 0.
  const std::string row = "1,120,1.055700,0.635500,0.104900,0.976000,2807.00,2.000,0.01,,,0,0,,,,,\n";
  EXPECT_EQ(
      read_text(folder.path() + "/results.csv"),
      "epoch,step,train_loss,train_accuracy,test_loss,test_accuracy,images_per_second,seconds,learning_rate,joules,"
      "joules_error,measured_members,members,declared_joules,assumed_joules,wraps,gaps,gap_seconds\n" +
          row + row);
}

TEST(FileObserver, BeginsFilesAnewThatSomebodyDeleted) {
  const TemporaryFolder folder;
  const std::string run = folder.path() + "/run";
  std::filesystem::create_directory(run);
  const auto observer = make_file_observer(run);
  observer->on_epoch(kEpoch);
  std::filesystem::remove_all(run);
  observer->on_epoch(kEpoch);  // which is lost, because there is no folder
  std::filesystem::create_directory(run);
  observer->on_epoch(kEpoch);
  EXPECT_EQ(events_in(read_text(run + "/events.jsonl")).size(), 1U);
  EXPECT_THAT(read_text(run + "/results.csv"), testing::MatchesRegex("epoch,step,.*\n1,120,.*\n"));
}

TEST(FileObserver, NamesTheFileThatItCannotWrite) {
  const TemporaryFolder folder;
  const std::string missing = folder.path() + "/missing";
  EXPECT_THAT([&] { make_file_observer(missing); },
              testing::ThrowsMessage<Error>(HasSubstr(missing + "/events.jsonl: the file cannot be written")));
}

TEST(PlotObserver, DrawsASingleEpoch) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  const auto records = make_file_observer(folder.path());
  const auto plot = make_plot_observer(folder.path());
  RunStart start = start_of();
  start.data = "somebody's data_set";
  plot->on_start(start);
  records->on_epoch(kEpoch);
  plot->on_epoch(kEpoch);
  plot->on_end(kEnd);
  EXPECT_THAT(read_text(folder.path() + "/curves.gnuplot"), HasSubstr("'glyphs on somebody''s data_set, batch 50'"));
  EXPECT_GT(std::filesystem::file_size(folder.path() + "/curves.png"), 5000U);
}

}  // namespace
}  // namespace convoy
