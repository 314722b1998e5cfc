// Tests which rungs a search chooses while others are under way, with made-up results that come in any order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "core/random.hpp"
#include "master/jobs/next_job.hpp"

namespace convoy {
namespace {

constexpr long kTrials = 30;

Space space_of(const std::string& method, const std::string& budget = fmt::format("trials: {}", kTrials)) {
  return parse_space(
      fmt::format("net: n.yaml\n{}\nmethod: {}\nseed: 5\nrungs: {{first: 10}}\nparameters: {{a.b: {{log: "
                  "[0.001, 1]}}, c.d: {{integer: [1, 20]}}, e.f: {{choice: [x, y]}}}}\n",
                  budget, method),
      "s.yaml");
}

/// A made-up training; settings with a high first value diverge.
RungResult trained(const Job& job, const Ladder& ladder) {
  const double rate = std::stod(job.setting[0]);
  RungResult result{.trial = job.trial, .rung = job.rung, .setting = job.setting};
  result.images = ladder.images[job.rung];
  result.accuracy = 0.5 + 0.1 * job.rung - std::abs(std::log10(rate) + 2.0) * 0.1;
  result.loss = 1.0 - result.accuracy;
  if (rate > 0.5) {
    result.outcome = TrialOutcome::diverged;
    result.accuracy = result.loss = NAN;
    result.images /= 2;
  }
  return result;
}

using Rungs = std::vector<std::tuple<int, int, TrialSetting>>;

/// A search with several rungs under way, on machines whose speeds are drawn.
class Played {
 public:
  Played(Space space, std::size_t at_once, std::uint64_t seed)
      : space_(std::move(space)), at_once_(at_once), random_(seed, 1) {}

  /// Goes on from these results until there are `most`.
  Played& play(RungResults results = {}, std::size_t most = 100000) {
    results_ = std::move(results);
    open_.clear();
    while (results_.size() < most) {
      while (decide()) {
      }
      if (open_.empty()) break;
      // Some rung ends. Its result counts once those of all rungs that were chosen before are there.
      open_[random_.below(static_cast<std::uint32_t>(open_.size()))].second = true;
      for (; !open_.empty() && open_.front().second && results_.size() < most; open_.pop_front()) {
        results_.push_back(trained(open_.front().first, ladder_));
        if (changed_ == results_.size()) results_.back().accuracy += 0.37;
      }
    }
    return *this;
  }
  /// The result of this decision, counted from 1, is another one.
  Played& with_change_of(std::size_t decision) {
    changed_ = decision;
    return *this;
  }

  const RungResults& results() const { return results_; }
  Rungs rungs() const {
    Rungs rungs;
    for (const RungResult& each : results_) rungs.emplace_back(each.trial, each.rung, each.setting);
    return rungs;
  }
  const Ladder& ladder() const { return ladder_; }

 private:
  bool decide() {
    std::vector<Job> open;
    for (const auto& [job, ended] : open_) open.push_back(job);
    const std::optional<Job> job = next_job(space_, ladder_, results_, open, at_once_);
    if (job) open_.emplace_back(*job, false);
    return job.has_value();
  }

  Space space_;
  Ladder ladder_ = ladder_of(space_, 90);
  std::size_t at_once_;
  Random random_;
  RungResults results_;
  std::deque<std::pair<Job, bool>> open_;  ///< with whether it has ended
  std::size_t changed_ = 0;
};

TEST(RungsAtOnce, DoNotDependOnWhichMachineIsFaster) {
  for (const char* method : {"random", "tpe"}) {
    for (const std::size_t at_once : {2, 3, 8}) {
      const Rungs once = Played(space_of(method), at_once, 1).play().rungs();
      for (const std::uint64_t seed : {2, 3, 4}) {
        ASSERT_EQ(Played(space_of(method), at_once, seed).play().rungs(), once) << method << " " << at_once;
      }
      EXPECT_EQ(std::ranges::count_if(once, [](const auto& rung) { return std::get<1>(rung) == 0; }), kTrials);
      EXPECT_TRUE(std::ranges::any_of(once, [](const auto& rung) { return std::get<1>(rung) == 2; }));
    }
  }
}

TEST(RungsAtOnce, GoOnFromAnyResultAsIfUndisturbed) {
  for (const char* method : {"random", "tpe"}) {
    const RungResults whole = Played(space_of(method), 3, 1).play().results();
    const Rungs expected = Played(space_of(method), 3, 1).play().rungs();
    for (std::size_t cut = 0; cut < whole.size(); ++cut) {
      const RungResults part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
      ASSERT_EQ(Played(space_of(method), 3, 10 + cut).play(part).rungs(), expected) << method << " after " << cut;
    }
  }
}

TEST(RungsAtOnce, OneAtATimeAreThoseOfASearchInTurn) {
  for (const char* method : {"random", "tpe"}) {
    const Space space = space_of(method);
    const Ladder ladder = ladder_of(space, 90);
    RungResults in_turn;
    while (const auto job = next_job(space, ladder, in_turn)) in_turn.push_back(trained(*job, ladder));
    Rungs expected;
    for (const RungResult& each : in_turn) expected.emplace_back(each.trial, each.rung, each.setting);
    EXPECT_EQ(Played(space, 1, 1).play().rungs(), expected);
  }
}

/// Decision i does not look at results of decisions after i - at_once.
TEST(RungsAtOnce, LookAtResultsWithAFixedLag) {
  constexpr std::size_t kAtOnce = 4;
  const Rungs once = Played(space_of("tpe"), kAtOnce, 1).play().rungs();
  std::size_t changes = 0;
  for (std::size_t changed = 1; changed <= 20; ++changed) {
    const Rungs other = Played(space_of("tpe"), kAtOnce, 1).with_change_of(changed).play().rungs();
    const std::size_t same = changed + kAtOnce - 1;  // decisions that did not know the result
    ASSERT_TRUE(std::equal(once.begin(), once.begin() + static_cast<std::ptrdiff_t>(same), other.begin())) << changed;
    changes += other != once ? 1 : 0;
  }
  EXPECT_GT(changes, 5U) << "later decisions look at results";
}

TEST(RungsAtOnce, AreNeverTwiceTheSame) {
  const Rungs rungs = Played(space_of("tpe"), 8, 1).play().rungs();
  std::set<std::pair<int, int>> seen;
  std::map<int, TrialSetting> settings;
  for (const auto& [trial, rung, setting] : rungs) {
    EXPECT_TRUE(seen.insert({trial, rung}).second) << trial << " " << rung;
    EXPECT_TRUE(rung == 0 || seen.contains({trial, rung - 1}));
    if (rung > 0) {
      EXPECT_EQ(settings[trial], setting);
    }
    settings[trial] = setting;
  }
  std::set<TrialSetting> different;
  for (const auto& [trial, setting] : settings) different.insert(setting);
  EXPECT_EQ(different.size(), settings.size());
}

/// When no trial may begin any more, a decision waits for results instead of ending the search.
TEST(RungsAtOnce, PromoteAfterTheLastTrialHasBegun) {
  const Played few = Played(space_of("random", "trials: 3"), 8, 1).play();
  ASSERT_EQ(few.results().size(), 4U) << "three trials, and the best of them once more";
  EXPECT_EQ(few.results().back().rung, 1);
}

TEST(RungsAtOnce, KeepToTheBudgetOfImages) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Played played = Played(space_of("random", "images: 700"), 5, seed).play();
    EXPECT_LE(images_of(played.results()), 700);
    EXPECT_GT(images_of(played.results()), 700 - 90);
  }
}

}  // namespace
}  // namespace convoy
