// Tests which settings a search tries, and which trials go on, with made-up results instead of trainings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "master/jobs/next_job.hpp"
#include "master/jobs/sampler.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;

Space space_from(const std::string& fields, const std::string& parameters) {
  return parse_space("net: n.yaml\n" + fields + "\nparameters: {" + parameters + "}\n", "s.yaml");
}

RungResult result_of(int trial, int rung, double accuracy, TrialOutcome outcome = TrialOutcome::finished) {
  return {.trial = trial,
          .rung = rung,
          .setting = {std::to_string(trial)},
          .outcome = outcome,
          .images = 10,
          .accuracy = accuracy,
          .loss = 1.0 - accuracy,
          .why = ""};
}

/// What a made-up training of a setting gives.
using Objective = std::function<double(const TrialSetting& setting, int rung)>;

/// Plays a search to its end. `objective` gives the accuracy; NaN makes the trial diverge.
RungResults play(const Space& space, const Ladder& ladder, const Objective& objective, RungResults results = {},
                 std::size_t most = 100000) {
  while (results.size() < most) {
    const std::optional<Job> job = next_job(space, ladder, results);
    if (!job) break;
    RungResult result = result_of(job->trial, job->rung, objective(job->setting, job->rung));
    result.setting = job->setting;
    result.images = ladder.images[job->rung];
    if (std::isnan(result.accuracy)) result.outcome = TrialOutcome::diverged;
    results.push_back(result);
  }
  return results;
}

std::vector<std::pair<int, int>> jobs_in(const RungResults& results) {
  std::vector<std::pair<int, int>> jobs;
  for (const RungResult& each : results) jobs.emplace_back(each.trial, each.rung);
  return jobs;
}

// ---- ladders and promotions ----------------------------------------------------------------------------------------

TEST(Ladders, RiseByTheirFactorToTheLastRung) {
  const std::string parameter = "a.b: {linear: [0, 1]}";
  EXPECT_THAT(ladder_of(space_from("trials: 3\nrungs: {first: 3000}", parameter), 60000).images,
              ElementsAre(3000, 9000, 27000, 60000));
  EXPECT_THAT(ladder_of(space_from("trials: 3\nrungs: {first: 10, factor: 2, last: 80}", parameter), 60000).images,
              ElementsAre(10, 20, 40, 80));
  EXPECT_THAT(ladder_of(space_from("trials: 3", parameter), 60000).images, ElementsAre(60000));
  EXPECT_THAT(
      ladder_of(space_from("trials: 3\nrungs: {first: 900000000000000, factor: 100}", parameter), 9000000000000000000)
          .images,
      testing::SizeIs(3));
  EXPECT_THROW(ladder_of(space_from("trials: 3\nrungs: {first: 70000}", parameter), 60000), Error);
  EXPECT_THROW(ladder_of(space_from("trials: 3\nrungs: {first: 7, last: 70000}", parameter), 60000), Error);
}

TEST(Promotions, GoToTheBestOfEachRung) {
  const Ladder ladder{.images = {1, 3, 9}, .factor = 3};
  const auto after = [&](const RungResults& results) { return promotion_after(results, ladder, Metric::accuracy); };
  RungResults results{result_of(1, 0, 0.5), result_of(2, 0, 0.7)};
  EXPECT_FALSE(after(results)) << "a third of two is none";
  results.push_back(result_of(3, 0, 0.6));
  ASSERT_TRUE(after(results));
  EXPECT_EQ(after(results)->trial, 2);
  EXPECT_EQ(after(results)->rung, 1);
  results.push_back(result_of(2, 1, 0.8));
  EXPECT_FALSE(after(results)) << "the best third of the lowest rung has gone on";
  for (const int trial : {4, 5, 6}) results.push_back(result_of(trial, 0, 0.9));
  ASSERT_TRUE(after(results));
  EXPECT_EQ(after(results)->trial, 4) << "of equal trials the first goes on first";
  results.push_back(result_of(4, 1, 0.1));
  EXPECT_EQ(after(results)->trial, 5);
  results.push_back(result_of(5, 1, 0.2));
  ASSERT_TRUE(after(results));
  EXPECT_EQ(after(results)->trial, 2) << "the highest rung comes first";
  EXPECT_EQ(after(results)->rung, 2);
}

TEST(Promotions, AreNotForTrialsThatDiverged) {
  const Ladder ladder{.images = {1, 3}, .factor = 2};
  RungResults results;
  for (const int trial : {1, 2, 3, 4}) results.push_back(result_of(trial, 0, NAN, TrialOutcome::diverged));
  EXPECT_FALSE(promotion_after(results, ladder, Metric::accuracy));
  results.push_back(result_of(5, 0, 0.1));
  ASSERT_TRUE(promotion_after(results, ladder, Metric::accuracy)) << "those that diverged count among the others";
  EXPECT_EQ(promotion_after(results, ladder, Metric::accuracy)->trial, 5);
  // A number that is not finite never wins, even if a trial is said to have finished.
  results[1] = result_of(2, 0, NAN);
  EXPECT_EQ(promotion_after(results, ladder, Metric::loss)->trial, 5);
}

/// One machine trains good trials further before all trials have begun, which Ray's ASHA does not.
TEST(Searches, PromoteBeforeTheyBegin) {
  const Space space = space_from("trials: 6\nmethod: random\nrungs: {first: 10, factor: 3}", "a.b: {linear: [0, 1]}");
  const RungResults results =
      play(space, ladder_of(space, 90), [](const TrialSetting& setting, int) { return std::stod(setting[0]); });
  const auto jobs = jobs_in(results);
  ASSERT_GE(jobs.size(), 8U);
  EXPECT_EQ(jobs[2], std::pair(3, 0));
  EXPECT_EQ(jobs[3].second, 1);
  EXPECT_EQ(jobs[4], std::pair(4, 0));
  EXPECT_EQ(std::ranges::count_if(jobs, [](const auto& job) { return job.second == 0; }), 6);
}

/// Most trials are trained for a few images only.
TEST(Searches, NeedAFewOfTheImagesOfFullTrials) {
  const Space space =
      space_from("trials: 30\nmethod: random\nrungs: {first: 3000, factor: 3}", "a.b: {linear: [0, 1]}");
  const Ladder ladder = ladder_of(space, 81000);
  const RungResults results =
      play(space, ladder, [](const TrialSetting& setting, int) { return std::stod(setting[0]); });
  EXPECT_LT(images_of(results), 30 * 81000 / 4);
  const auto best = std::ranges::max_element(results, {}, &RungResult::accuracy);
  EXPECT_EQ(
      std::ranges::count_if(
          results, [&](const RungResult& each) { return each.rung == ladder.top() && each.trial == best->trial; }),
      1)
      << "the best trial is trained to the last rung";
}

TEST(Searches, EndWithTheirBudget) {
  const Objective rising = [](const TrialSetting& setting, int) { return std::stod(setting[0]); };
  const Space by_images = space_from("images: 1000\nmethod: random\nrungs: {first: 30}", "a.b: {linear: [0, 1]}");
  const Ladder ladder = ladder_of(by_images, 270);
  const RungResults results = play(by_images, ladder, rising);
  EXPECT_LE(images_of(results), 1000);
  EXPECT_GT(images_of(results), 1000 - 270);
  const Space grid = space_from("method: grid", "a.b: {linear: [0, 1], steps: 3}, c.d: {choice: [x, y]}");
  EXPECT_EQ(play(grid, ladder_of(grid, 10), rising).size(), 6U);
  const Space part = space_from("method: grid\ntrials: 4", "a.b: {linear: [0, 1], steps: 3}, c.d: {choice: [x, y]}");
  EXPECT_EQ(play(part, ladder_of(part, 10), rising).size(), 4U);
}

/// What a killed master has finished decides what it does next, whatever it was doing; and a larger budget goes on as
/// if it had been given from the start.
TEST(Searches, GoOnFromAnyResultAsIfUndisturbed) {
  for (const char* method : {"random", "tpe"}) {
    const std::string parameters = "a.b: {log: [0.001, 1]}, c.d: {integer: [1, 20]}, e.f: {choice: [x, y]}";
    const auto space_for = [&](int trials) {
      return space_from(fmt::format("trials: {}\nmethod: {}\nseed: 5\nrungs: {{first: 10}}", trials, method),
                        parameters);
    };
    const Objective objective = [](const TrialSetting& setting, int rung) {
      const double rate = std::stod(setting[0]);
      return rate > 0.5 ? NAN : 0.5 + 0.1 * rung - std::abs(std::log10(rate) + 2.0) * 0.1;
    };
    const Space space = space_for(25);
    const Ladder ladder = ladder_of(space, 90);
    const RungResults whole = play(space, ladder, objective);
    for (std::size_t cut = 0; cut < whole.size(); cut += 3) {
      const RungResults part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
      const RungResults resumed = play(space, ladder, objective, part);
      ASSERT_EQ(jobs_in(resumed), jobs_in(whole)) << method << " after " << cut;
      for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(resumed[i].setting, whole[i].setting);
    }
    const RungResults more = play(space_for(40), ladder, objective, whole);
    EXPECT_GT(more.size(), whole.size() + 14);
  }
}

// ---- settings ------------------------------------------------------------------------------------------------------

TEST(Settings, OfAGridAreAllCombinations) {
  const Space space = space_from("method: grid",
                                 "a.b: {log: [0.01, 1], steps: 3}, c.d: {integer: [1, 9], steps: 3}, e.f: {integer: "
                                 "[1, 2]}, g.h: {choice: [x, y]}");
  ASSERT_EQ(size_of_grid(space), 36);
  std::set<TrialSetting> all;
  for (int trial = 1; trial <= 36; ++trial) all.insert(*setting_of(trial, space, {}));
  EXPECT_EQ(all.size(), 36U);
  EXPECT_THAT(*setting_of(1, space, {}), ElementsAre("0.01", "1", "1", "x"));
  EXPECT_THAT(*setting_of(2, space, {}), ElementsAre("0.01", "1", "1", "y"));
  EXPECT_THAT(*setting_of(5, space, {}), ElementsAre("0.01", "5", "1", "x"));
  EXPECT_THAT(*setting_of(36, space, {}), ElementsAre("1", "9", "2", "y"));
  EXPECT_FALSE(setting_of(37, space, {}));
}

TEST(Settings, AtRandomFillTheirRange) {
  const Space space =
      space_from("method: random\ntrials: 1", "a.b: {log: [0.001, 1]}, c.d: {integer: [1, 4]}, e.f: {choice: [x, y]}");
  int small = 0;
  std::map<std::string, int> integers;
  std::map<std::string, int> choices;
  constexpr int kTrials = 600;
  for (int trial = 1; trial <= kTrials; ++trial) {
    const TrialSetting setting = *setting_of(trial, space, {});
    EXPECT_EQ(setting, *setting_of(trial, space, {}));
    small += std::stod(setting[0]) < 0.0316 ? 1 : 0;
    ++integers[setting[1]];
    ++choices[setting[2]];
  }
  EXPECT_NEAR(small, kTrials / 2, 60);  // half of the values of a log range are below its geometric mean
  ASSERT_EQ(integers.size(), 4U);
  for (const auto& [value, count] : integers) EXPECT_NEAR(count, kTrials / 4, 60) << value;
  EXPECT_NEAR(choices["x"], kTrials / 2, 60);
}

TEST(Settings, AreNotTriedTwiceWhileThereAreOthers) {
  const Space space = space_from("method: random\ntrials: 12", "a.b: {integer: [1, 6]}, c.d: {choice: [x, y]}");
  const RungResults results = play(space, ladder_of(space, 10), [](const TrialSetting&, int) { return 0.5; });
  std::set<TrialSetting> settings;
  for (const RungResult& each : results) settings.insert(each.setting);
  EXPECT_EQ(settings.size(), 12U);
}

TEST(Settings, DependOnTheSeed) {
  const auto first = [](int seed) {
    return *setting_of(1, space_from(fmt::format("trials: 3\nseed: {}", seed), "a.b: {linear: [0, 1]}"), {});
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

/// An error rate with one narrow valley, in three kinds of parameters.
double accuracy_in_valley(const TrialSetting& setting) {
  const double rate = std::log10(std::stod(setting[0])) + 2.0;
  const double momentum = (std::stod(setting[1]) - 0.7) / 0.3;
  const double filters = (std::stod(setting[2]) - 40.0) / 20.0;
  const double optimizer = setting[3] == "b" ? 0.0 : 0.5;
  return 1.0 / (1.0 + rate * rate + momentum * momentum + filters * filters + optimizer);
}

/// The number of trials until one is in the valley, at most 200.
std::size_t trials_to_valley(const std::string& method, int seed) {
  const Space space = space_from(fmt::format("method: {}\ntrials: 200\nseed: {}", method, seed),
                                 "a.rate: {log: [0.0001, 1]}, a.momentum: {linear: [0, 1]}, a.filters: {integer: [1, "
                                 "100]}, a.optimizer: {choice: [a, b, c]}");
  const Ladder ladder = ladder_of(space, 10);
  RungResults results;
  for (std::size_t trials = 1; trials < 200; ++trials) {
    results = play(
        space, ladder, [](const TrialSetting& setting, int) { return accuracy_in_valley(setting); }, results, trials);
    if (results.back().accuracy > 0.9) return trials;
  }
  return 200;
}

TEST(Tpe, FindsTheBestInFewerTrialsThanRandom) {
  std::vector<std::size_t> tpe;
  std::vector<std::size_t> random;
  for (int seed = 1; seed <= 9; ++seed) {
    tpe.push_back(trials_to_valley("tpe", seed));
    random.push_back(trials_to_valley("random", seed));
  }
  std::ranges::sort(tpe);
  std::ranges::sort(random);
  EXPECT_LT(2 * tpe[4], random[4]) << "medians of nine seeds";
  EXPECT_LT(tpe[8], 150U) << "no seed keeps to a wrong choice";
}

/// The mean distance of the settings of trials that begin one after another, without a result in between, on a range
/// from 0 to 1. Without `tell`, no setting knows those that are under way.
double distance_at_once(bool tell) {
  double sum = 0.0;
  int pairs = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    const Space space = space_from(fmt::format("method: tpe\ntrials: 60\nseed: {}", seed), "a.rate: {linear: [0, 1]}");
    const RungResults results = play(
        space, ladder_of(space, 10), [](const TrialSetting& setting, int) { return 1.0 - std::stod(setting[0]); }, {},
        20);
    std::vector<Job> open;
    for (int trial = 21; trial <= 26; ++trial) {
      const TrialSetting setting = *setting_of(trial, space, results, tell ? open : std::vector<Job>());
      for (const Job& each : open) {
        sum += std::abs(std::stod(setting[0]) - std::stod(each.setting[0]));
        ++pairs;
      }
      open.push_back({.trial = trial, .rung = 0, .setting = setting});
    }
  }
  return sum / pairs;
}

TEST(Tpe, KeepsTrialsApartThatRunAtTheSameTime) { EXPECT_GT(distance_at_once(true), 1.5 * distance_at_once(false)); }

/// A trial that goes on to a higher rung is not held against its setting, which has a result already.
TEST(Tpe, CountsTrialsUnderWayOnlyWhereTheyHaveNoResult) {
  const Space space = space_from("method: tpe\ntrials: 60", "a.rate: {linear: [0, 1]}");
  const RungResults results = play(
      space, ladder_of(space, 10), [](const TrialSetting& setting, int) { return std::stod(setting[0]); }, {}, 20);
  const TrialSetting alone = *setting_of(21, space, results);
  const Job promoted{.trial = 20, .rung = 1, .setting = results.back().setting};
  EXPECT_EQ(*setting_of(21, space, results, {promoted}), alone);
  const Job begun{.trial = 22, .rung = 0, .setting = {fmt::format("{}", std::stod(alone[0]) + 1e-9)}};
  EXPECT_NE(*setting_of(21, space, results, {begun}), alone);
}

/// Settings far in the part where training diverges are avoided, though the best values border on it.
TEST(Tpe, LearnsFromTrialsThatDiverged) {
  int late = 0;
  for (int seed = 1; seed <= 4; ++seed) {
    const Space space = space_from(fmt::format("method: tpe\ntrials: 60\nseed: {}", seed), "a.rate: {linear: [0, 1]}");
    int trials = 0;
    play(space, ladder_of(space, 10), [&](const TrialSetting& setting, int) {
      const double rate = std::stod(setting[0]);
      ++trials;
      if (trials > 30 && rate > 0.65) ++late;
      return rate > 0.5 ? NAN : 0.5 + rate;
    });
    EXPECT_EQ(trials, 60);
  }
  EXPECT_LE(late, 12) << "at random it would be 42 of 120";
}

}  // namespace
}  // namespace convoy
