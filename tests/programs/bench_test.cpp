// Runs convoy-bench as its users do.

#include <gmock/gmock.h>

#include <algorithm>

#include "bench/statistics.hpp"
#include "core/random.hpp"
#include "tests/energy/fake_machine.hpp"
#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Programs, ASweepRunsItsGridAndDrawsIt) {
  const std::string out = folder("sweep");
  Process sweep({kBench, "sweep", "--really", "--net", kSource + "/nets/glyphs.yaml", "--filters", "8:12", "--slaves",
                 "1,2", "--exchange", "ring,thesis", "--batch", "20", "--steps", "3", "--out", out});
  ASSERT_EQ(sweep.wait(200s), kSuccess) << sweep.output();
  const std::string table = file_bytes(out + "/sweep.csv");
  EXPECT_THAT(table, AllOf(HasSubstr("8:12,20,1,0,ring,fp32,"), HasSubstr("8:12,20,2,0,thesis,fp32,")));
  EXPECT_EQ(std::ranges::count(table, '\n'), 5) << table;
  for (const std::string picture : {"speedup-by-slaves", "seconds-by-exchange", "memory-by-slaves"}) {
    EXPECT_THAT(file_bytes(out + "/" + picture + ".gnuplot"), HasSubstr("plot $line0"));
  }
}

TEST_F(Programs, AProfileShowsEveryStageAndWritesATrace) {
  const std::string trace = folder("trace.json");
  Process profile({kBench, "profile", "--net", kSource + "/nets/resnet20.yaml", "--batch", "4", "--repeats", "2",
                   "--trace", trace, "--threads", "1"});
  ASSERT_EQ(profile.wait(100s), kSuccess) << profile.output();
  EXPECT_THAT(profile.output(), AllOf(HasSubstr("conv1 "), HasSubstr("all stages"), HasSubstr("peak memory")));
  const std::string events = file_bytes(trace);
  EXPECT_THAT(events, AllOf(HasSubstr("\"traceEvents\":["), HasSubstr("\"name\":\"conv1 weight gradient\"")));
  Process csv({kBench, "profile", "--net", kSource + "/nets/glyphs.yaml", "--repeats", "1", "--format", "csv"});
  ASSERT_EQ(csv.wait(100s), kSuccess) << csv.output();
  EXPECT_THAT(csv.output(), HasSubstr("stage,forward_s"));
  EXPECT_EQ(std::ranges::count(csv.output(), '\n'), 4) << csv.output();
}

TEST_F(Programs, TasksTrainTheSameAtOnceAndOneAfterAnother) {
  const std::string nets = kSource + "/nets/small-mlp.yaml," + kSource + "/nets/glyphs.yaml";
  std::vector<std::string> words{kBench,    "tasks", "--nets",   nets, "--batch",   "4", "--steps",  "3",
                                 "--tests", "1",     "--rounds", "1",  "--threads", "2", "--format", "csv"};
  Process tasks(words);
  ASSERT_EQ(tasks.wait(100s), kSuccess) << tasks.output();
  EXPECT_THAT(tasks.output(),
              AllOf(HasSubstr("\none after another, 1 thread,"), HasSubstr("\none after another, 2 threads,"),
                    HasSubstr("\nat once, a thread each,"), HasSubstr("\nat once, a process each,")));
  EXPECT_EQ(std::ranges::count(tasks.output(), '\n'), 5) << tasks.output();
  words[3] = kSource + "/nets/nothing.yaml";
  Process lacking(words);
  EXPECT_EQ(lacking.wait(60s), kFailure) << lacking.output();
  EXPECT_THAT(lacking.output(), HasSubstr("nothing.yaml"));
}

TEST_F(Programs, ASimulatedSweepTakesTheMachinesOfARun) {
  Process a = slave("a");
  const std::string net = kSource + "/nets/glyphs.yaml";
  Process train = master(
      {"train", net, "--slaves", "1", "--steps", "3", "--listen", endpoint_, "--insecure", "--out", folder("run")});
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  const std::vector<std::string> words{kBench,        "sweep",    "--net", net,     "--from-run",
                                       folder("run"), "--slaves", "1,4",   "--out", folder("sweep")};
  Process other(words);
  EXPECT_EQ(other.wait(60s), kFailure) << other.output();
  EXPECT_THAT(other.output(), HasSubstr("the timings are for a batch of 50"));
  std::vector<std::string> same = words;
  same.insert(same.end(), {"--batch", "50"});
  Process sweep(same);
  ASSERT_EQ(sweep.wait(60s), kSuccess) << sweep.output();
  EXPECT_EQ(std::ranges::count(file_bytes(folder("sweep") + "/sweep.csv"), '\n'), 3);
}

TEST_F(Programs, TheCostOfSamplingIsMeasuredInTurns) {
  const energy::FakeMachine desktop("rapl");
  const auto sampling = [](const std::string& root) {
    return Process({"/usr/bin/env", "CONVOY_METER_ROOT=" + root, "CONVOY_NVML_LIBRARY=none", kBench, "sampling",
                    "--net", kSource + "/nets/glyphs.yaml", "--batch", "10", "--threads", "1", "--rounds", "3",
                    "--seconds", "0.05", "--format", "csv"});
  };
  Process measured = sampling(desktop.folder());
  ASSERT_EQ(measured.wait(100s), kSuccess) << measured.output();
  EXPECT_THAT(measured.output(),
              AllOf(HasSubstr("net,batch,device,meter,rounds,ratio"), HasSubstr("glyphs,10,cpu,rapl,3,")));
  Process none = sampling(folder("no-sensors"));
  EXPECT_EQ(none.wait(100s), kFailure);
  EXPECT_THAT(none.output(), HasSubstr("the machine has no meter that can be used"));
}

TEST(Statistics, TheIntervalOfAMedianHoldsItInMostTrials) {
  Random random(5, 1);
  for (const int count : {8, 100, 401}) {
    int held = 0;
    for (int trial = 0; trial < 1000; ++trial) {
      std::vector<double> values;
      for (int i = 0; i < count; ++i) values.push_back(random.normal());
      const auto [low, high] = median_interval(values);
      held += low <= 0 && 0 <= high ? 1 : 0;
    }
    EXPECT_GE(held, 940) << count;
    EXPECT_LE(held, 999) << count;
  }
}

}  // namespace
}  // namespace convoy
