// Tests the placing of jobs on machines: against the best of all placements, which loops find, and played with machines
// that come and go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/random.hpp"
#include "master/jobs/schedule.hpp"

namespace convoy {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

using Times = std::vector<std::vector<double>>;

/// Jobs of these lengths on machines of these speeds.
Times times_of(const std::vector<double>& lengths, const std::vector<double>& speeds) {
  Times times;
  for (const double length : lengths) {
    times.emplace_back();
    for (const double speed : speeds) times.back().push_back(length / speed);
  }
  return times;
}

std::vector<double> random_numbers(Random& random, std::size_t count, int low, int high) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    numbers.push_back(low + static_cast<int>(random.below(static_cast<std::uint32_t>(high - low + 1))));
  }
  return numbers;
}

/// The shortest makespan of all placements.
double best_of_all(const Times& times, std::vector<double> busy, std::size_t job = 0) {
  if (job == times.size()) return *std::ranges::max_element(busy);
  double best = kInfinite;
  for (std::size_t machine = 0; machine < busy.size(); ++machine) {
    std::vector<double> with = busy;
    with[machine] += times[job][machine];
    best = std::min(best, best_of_all(times, with, job + 1));
  }
  return best;
}

TEST(LongestFirst, GivesTheLongestJobToTheMachineThatEndsItFirst) {
  const auto placed = longest_first(times_of({2, 8, 4}, {1, 2}), {0, 0});
  ASSERT_EQ(placed.size(), 3U);
  EXPECT_EQ(placed[0].job, 1U);
  EXPECT_EQ(placed[0].machine, 1U);
  EXPECT_EQ(placed[1].job, 2U);
  EXPECT_EQ(placed[1].machine, 0U);  // 4 s here, 4 + 2 s there
  EXPECT_EQ(placed[2].job, 0U);
  EXPECT_EQ(placed[2].machine, 1U);
  EXPECT_DOUBLE_EQ(placed[2].from, 4.0);
  EXPECT_DOUBLE_EQ(makespan(placed), 5.0);
}

TEST(LongestFirst, LeavesASlowMachineIdleWhereItWouldBeLast) {
  const auto placed = longest_first(times_of({10, 9}, {1, 10}), {0, 0});
  EXPECT_EQ(placed[0].machine, 1U);
  EXPECT_EQ(placed[1].machine, 1U);
  EXPECT_DOUBLE_EQ(makespan(placed), 1.9);
}

TEST(LongestFirst, WaitsForBusyMachinesAndLeavesOutWhatNoMachineCanTake) {
  const Times times{{1, kInfinite}, {kInfinite, kInfinite}, {3, 1}};
  const auto placed = longest_first(times, {7, kInfinite});
  ASSERT_EQ(placed.size(), 2U);
  for (const PlacedJob& each : placed) EXPECT_EQ(each.machine, 0U);
  EXPECT_DOUBLE_EQ(placed.front().from, 7.0);
  EXPECT_DOUBLE_EQ(makespan(placed), 11.0);
  EXPECT_TRUE(longest_first(times, {}).empty());
  EXPECT_TRUE(longest_first({}, {0.0}).empty());
  EXPECT_EQ(makespan({}), 0.0);
}

/// Graham (1969): on m equal machines at most 4/3 - 1/(3 m) of the best.
TEST(LongestFirst, KeepsTheBoundOnEqualMachines) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed, 1);
    const std::size_t machines = 2 + random.below(2);
    const std::vector<double> lengths = random_numbers(random, 4 + random.below(4), 1, 20);
    const Times times = times_of(lengths, std::vector<double>(machines, 1.0));
    const std::vector<double> idle(machines, 0.0);
    const double m = static_cast<double>(machines);
    EXPECT_LE(makespan(longest_first(times, idle)), (4.0 / 3.0 - 1.0 / (3.0 * m)) * best_of_all(times, idle) + 1e-9)
        << "seed " << seed;
  }
}

/// Gonzalez, Ibarra and Sahni (1977): on m machines of different speeds at most 2 m / (m + 1) of the best.
TEST(LongestFirst, KeepsTheBoundOnMachinesOfDifferentSpeeds) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed, 2);
    const std::size_t machines = 2 + random.below(2);
    const std::vector<double> speeds = random_numbers(random, machines, 1, 8);
    const std::vector<double> lengths = random_numbers(random, 4 + random.below(4), 1, 20);
    const Times times = times_of(lengths, speeds);
    const std::vector<double> idle(machines, 0.0);
    const double m = static_cast<double>(machines);
    EXPECT_LE(makespan(longest_first(times, idle)), 2.0 * m / (m + 1.0) * best_of_all(times, idle) + 1e-9)
        << "seed " << seed;
  }
}

TEST(LongestFirst, PlacesEachJobOnceAndNoTwoAtATime) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed, 3);
    const std::vector<double> lengths = random_numbers(random, 1 + random.below(40), 1, 100);
    const std::vector<double> speeds = random_numbers(random, 1 + random.below(6), 1, 9);
    const std::vector<double> busy = random_numbers(random, speeds.size(), 0, 30);
    const auto placed = longest_first(times_of(lengths, speeds), busy);
    ASSERT_EQ(placed.size(), lengths.size());
    std::vector<double> until = busy;
    std::vector<int> times(lengths.size(), 0);
    for (const PlacedJob& each : placed) {
      ++times[each.job];
      EXPECT_DOUBLE_EQ(each.from, until[each.machine]);
      EXPECT_NEAR(each.to - each.from, lengths[each.job] / speeds[each.machine], 1e-9);
      until[each.machine] = each.to;
    }
    EXPECT_THAT(times, testing::Each(1));
  }
}

using Indices = std::vector<std::size_t>;

Indices all_of(const PlacedJob& placed) {
  Indices machines{placed.machine};
  machines.insert(machines.end(), placed.others.begin(), placed.others.end());
  return machines;
}

TEST(Groups, HaveTheSummedSpeedOfTheirMachines) {
  const auto placed = place_longest_first(times_of({12, 1}, {1, 2, 3}),
                                          {.busy = {0, 0, 0}, .joins = {true, true, true}, .groups = {2, 1}});
  ASSERT_EQ(placed.size(), 2U);
  EXPECT_EQ(placed[0].job, 0U);
  EXPECT_EQ(all_of(placed[0]), (Indices{1, 2})) << "the fastest";
  EXPECT_DOUBLE_EQ(placed[0].to, 12.0 / 5.0);
  EXPECT_EQ(placed[1].machine, 0U);
  EXPECT_TRUE(placed[1].others.empty());
}

TEST(Groups, AreSlowerByTheirMessages) {
  const Times times = times_of({12, 3}, {1, 2, 3});
  const Placing placing{
      .busy = {0, 0, 0}, .joins = {true, true, true}, .groups = {2, 1}, .slowdowns = {{2, 2.5}, {3, 9.0}}};
  const auto placed = place_longest_first(times, placing);
  EXPECT_DOUBLE_EQ(placed[0].to, 2.5 * 12.0 / 5.0);
  EXPECT_DOUBLE_EQ(placed[1].to, 3.0);
  // A job that is the longest for its messages comes first.
  EXPECT_EQ(place_longest_first(times_of({6, 4}, {1, 1}), {.busy = {0, 0}, .joins = {true, true}, .groups = {2, 1}})
                .front()
                .job,
            1U);
  EXPECT_EQ(place_longest_first(times_of({6, 4}, {1, 1}),
                                {.busy = {0, 0}, .joins = {true, true}, .groups = {2, 1}, .slowdowns = {{2, 2.0}}})
                .front()
                .job,
            0U);
}

TEST(Groups, WaitForAllOfTheirMachinesOrTakeThoseThatAreFree) {
  const auto place = [](double until) {
    return place_longest_first(times_of({12}, {1, 2, 4}),
                               {.busy = {0, 0, until}, .joins = {true, true, true}, .groups = {2}})
        .at(0);
  };
  EXPECT_EQ(all_of(place(1)), (Indices{1, 2})) << "1 + 12/6 s";
  EXPECT_DOUBLE_EQ(place(1).from, 1.0);
  EXPECT_EQ(all_of(place(3)), (Indices{0, 1})) << "12/3 s, not 3 + 12/6 s";
  EXPECT_DOUBLE_EQ(place(3).from, 0.0);
}

TEST(Groups, AreSmallerWhereFewerMachinesCanJoin) {
  const Placing placing{.busy = {0, 0, kInfinite, 0}, .joins = {false, true, true, true}, .groups = {3}};
  EXPECT_EQ(all_of(place_longest_first(times_of({12}, {9, 1, 9, 1}), placing).at(0)), (Indices{1, 3}));
  Times unfit = times_of({12}, {1, 1, 9, 1});
  unfit[0][3] = kInfinite;
  EXPECT_EQ(all_of(place_longest_first(unfit, placing).at(0)), (Indices{0}))
      << "on the master, as a job of one machine";
  unfit[0][0] = unfit[0][1] = kInfinite;
  EXPECT_TRUE(place_longest_first(unfit, placing).empty());
}

TEST(Groups, ShareNoMachineAtATime) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed, 4);
    const std::vector<double> lengths = random_numbers(random, 1 + random.below(20), 1, 100);
    const std::vector<double> speeds = random_numbers(random, 1 + random.below(6), 1, 9);
    Placing placing{.busy = random_numbers(random, speeds.size(), 0, 30)};
    std::size_t joining = 0;
    for (std::size_t m = 0; m < speeds.size(); ++m) {
      placing.joins.push_back(random.below(4) > 0);
      joining += placing.joins.back() ? 1 : 0;
    }
    for (std::size_t j = 0; j < lengths.size(); ++j) placing.groups.push_back(1 + random.below(4));
    const auto placed = place_longest_first(times_of(lengths, speeds), placing);
    ASSERT_EQ(placed.size(), lengths.size());
    std::vector<std::map<double, double>> taken(speeds.size());  // from and to of each machine's jobs
    for (const PlacedJob& each : placed) {
      const Indices group = all_of(each);
      EXPECT_EQ(group.size(), std::max<std::size_t>(1, std::min(placing.groups[each.job], joining)));
      double speed = 0.0;
      for (const std::size_t machine : group) {
        EXPECT_TRUE(group.size() == 1 || placing.joins[machine]);
        EXPECT_LE(placing.busy[machine], each.from);
        EXPECT_TRUE(taken[machine].emplace(each.from, each.to).second);
        speed += speeds[machine];
      }
      EXPECT_NEAR(each.to - each.from, lengths[each.job] / speed, 1e-9);
    }
    for (const auto& times : taken) {
      double until = 0.0;
      for (const auto& [from, to] : times) {
        EXPECT_LE(until, from) << "seed " << seed;
        until = to;
      }
    }
  }
}

/// A machine that waits for others of its group does short jobs meanwhile, and begins the group no later for them.
TEST(Groups, LetShortJobsUseTheirWaits) {
  // The group of the first two machines begins after 4 s.
  const Times times = times_of({20, 3, 2, 2}, {1, 1, 0.5});
  const Placing placing{.busy = {0, 4, 0}, .joins = {true, true, false}, .groups = {2, 1, 1, 1}};
  const auto placed = place_longest_first(times, placing);
  ASSERT_EQ(placed.size(), 4U);
  EXPECT_EQ(all_of(placed[0]), (Indices{0, 1}));
  EXPECT_DOUBLE_EQ(placed[0].from, 4.0);
  EXPECT_EQ(placed[1].machine, 0U);
  EXPECT_DOUBLE_EQ(placed[1].from, 0.0);
  EXPECT_DOUBLE_EQ(placed[1].to, 3.0);
  for (std::size_t j : {2, 3}) {
    EXPECT_EQ(placed[j].machine, 2U) << "what is left of the wait is too short";
  }
  // A job that would end later than the group begins waits until the group has ended.
  const auto longer =
      place_longest_first(times_of({20, 5}, {1, 1}), {.busy = {0, 4}, .joins = {true, true}, .groups = {2, 1}});
  EXPECT_DOUBLE_EQ(longer[1].from, 14.0);
}

// ---- played ---------------------------------------------------------------------------------------------------------

/// A machine from one second to another. What it has not finished by then is lost but for the part that was done.
struct PlayedMachine {
  double speed = 1.0;
  double comes = 0.0;
  double goes = kInfinite;
};

struct Played {
  double makespan = 0.0;
  std::vector<double> worked;  ///< of each job, the work that was done in all
  int losses = 0;
};

/// Does what the command does: whenever a job ends or a machine comes or goes, places the jobs that wait, and begins
/// the jobs that come first on their machines.
Played play(std::vector<double> lengths, const std::vector<PlayedMachine>& machines) {
  struct Running {
    std::size_t job;
    double until;
  };
  Played played{.worked = std::vector<double>(lengths.size(), 0.0)};
  std::map<std::size_t, Running> running;  // by machine
  std::vector<bool> waits(lengths.size(), true);
  for (double now = 0.0; std::isfinite(now);) {
    for (auto at = running.begin(); at != running.end();) {
      const auto& [machine, run] = *at;
      const bool ends = run.until <= now;
      if (!ends && machines[machine].goes > now) {
        ++at;
        continue;
      }
      const double left = ends ? 0.0 : (run.until - now) * machines[machine].speed;
      played.worked[run.job] += lengths[run.job] - left;
      lengths[run.job] = left;
      waits[run.job] = !ends;
      played.losses += ends ? 0 : 1;
      if (ends) played.makespan = now;
      at = running.erase(at);
    }
    std::vector<std::size_t> jobs;
    Times times;
    for (std::size_t j = 0; j < lengths.size(); ++j) {
      if (!waits[j]) continue;
      jobs.push_back(j);
      times.emplace_back();
      for (const PlayedMachine& each : machines) times.back().push_back(lengths[j] / each.speed);
    }
    std::vector<double> busy;
    for (std::size_t m = 0; m < machines.size(); ++m) {
      const bool there = machines[m].comes <= now && now < machines[m].goes;
      busy.push_back(running.contains(m) ? running.at(m).until - now : there ? 0.0 : kInfinite);
    }
    for (const PlacedJob& each : longest_first(times, busy)) {
      if (each.from > 0.0) continue;
      waits[jobs[each.job]] = false;
      running[each.machine] = {jobs[each.job], now + each.to};
    }
    double next = kInfinite;
    for (const auto& [machine, run] : running) next = std::min({next, run.until, machines[machine].goes});
    for (const PlayedMachine& each : machines) {
      if (each.comes > now) next = std::min(next, each.comes);
    }
    now = next;
  }
  return played;
}

/// Twelve jobs on machines of speed 1, 2 and 4 end about when they would if they were placed once and for all.
TEST(LongestFirst, PlayedEndsAboutWhenItWasPlanned) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed, 4);
    const std::vector<double> lengths = random_numbers(random, 12, 10, 100);
    const double planned = makespan(longest_first(times_of(lengths, {1, 2, 4}), {0, 0, 0}));
    const Played played = play(lengths, {{.speed = 1}, {.speed = 2}, {.speed = 4}});
    EXPECT_LE(played.makespan, 1.15 * planned) << "seed " << seed;
    // No schedule ends before all machines together could.
    EXPECT_GE(played.makespan, std::accumulate(lengths.begin(), lengths.end(), 0.0) / 7.0 - 1e-9);
  }
}

TEST(LongestFirst, PlayedDoesAllWorkOnceThoughMachinesComeAndGo) {
  int losses = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed, 5);
    const std::vector<double> lengths = random_numbers(random, 12, 10, 100);
    std::vector<PlayedMachine> machines{{.speed = 1}};  // one stays
    for (int i = 0; i < 4; ++i) {
      const double comes = random.below(80);
      machines.push_back({.speed = 1.0 + random.below(4), .comes = comes, .goes = comes + 1.0 + random.below(60)});
    }
    const Played played = play(lengths, machines);
    losses += played.losses;
    for (std::size_t j = 0; j < lengths.size(); ++j) EXPECT_NEAR(played.worked[j], lengths[j], 1e-6) << "seed " << seed;
    EXPECT_LE(played.makespan, std::accumulate(lengths.begin(), lengths.end(), 0.0));
  }
  EXPECT_GT(losses, 100);
}

}  // namespace
}  // namespace convoy
