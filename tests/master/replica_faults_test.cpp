// Runs under each scheme of data-parallel training whose slaves die again and again, each at a message that is drawn
// from a seed, and are replaced. No fault may cost a step, and join may lose no bit.
//
// CONVOY_CHAOS_FAULTS (default 3) is the number of faults of each run, and CONVOY_CHAOS_SEED (default 1) the seed.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "tests/master/replica_run.hpp"
#include "tests/support/fake_slave.hpp"
#include "tests/support/states.hpp"
#include "train/async_learner.hpp"
#include "train/local_steps_learner.hpp"

namespace convoy {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int kPeriod = 4;               ///< local steps between two exchanges
constexpr long kEpoch = 6000 / (2 * 8);  ///< steps of two batches

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

int faults() { return number_from("CONVOY_CHAOS_FAULTS", 3); }

/// The memory of this process in MB, without what it has freed.
double resident() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  double all = 0.0;
  double pages = 0.0;
  file >> all >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

/// A message at which slaves die, after up to so many of them.
struct Occasion {
  const char* message;
  std::uint32_t most;
};

/// A slave that takes part from the beginning must live until the run has begun, so it dies at one of the first
/// `early`.
struct Occasions {
  std::vector<Occasion> all;
  std::uint32_t early = 0;
};

Occasions of_replicas() { return {{{"Step", 8}, {"Load", 16}, {"Snapshot", 16}, {"Assign", 1}, {"Piece", 200}}, 3}; }
/// Under one plan, weights are loaded only when the plan changes. A slave that dies at an Assign dies in a join, after
/// which newcomers wait nine times as long as the join took. The run would do thousands of steps meanwhile, after which
/// its losses can no longer be compared with those of one machine. Runs of replicas have slaves that die so.
Occasions of_one_plan() { return {{{"Step", 8}, {"Snapshot", 16}, {"Piece", 200}}, 2}; }

/// Slaves in seats. One that dies is followed by another in its seat, until there were enough deaths.
class MortalSeats {
 public:
  MortalSeats(ReplicaRun& run, int seats, Occasions occasions = of_replicas())
      : run_(run), occasions_(std::move(occasions)), left_(faults()) {
    for (int seat = 0; seat < seats; ++seat) threads_.emplace_back([this, seat] { fill(seat); });
    threads_.emplace_back([this] { watch(); });
  }
  ~MortalSeats() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  MortalSeats(const MortalSeats&) = delete;
  MortalSeats& operator=(const MortalSeats&) = delete;

  int deaths() const { return deaths_; }
  /// By how many MB the memory has grown since a third of the slaves had died.
  double growth() const { return resident() - early_; }

 private:
  /// A slave to which the plan gives nothing to do is sent no other messages than Steps.
  static constexpr int kMostSteps = 40;

  struct End {
    const char* at;
    int spared;
  };

  End draw(Random& random, bool first) const {
    const auto count = static_cast<std::uint32_t>(occasions_.all.size());
    const Occasion& at = occasions_.all[random.below(first ? occasions_.early : count)];
    return {at.message, static_cast<int>(random.below(at.most))};
  }

  void fill(int seat) {
    Random random(static_cast<std::uint64_t>(number_from("CONVOY_CHAOS_SEED", 1)), static_cast<std::uint64_t>(seat));
    for (int life = 0; !stop_; ++life) {
      const bool mortal = left_.fetch_sub(1) > 0;
      const End end = mortal ? draw(random, life == 0) : End{"nothing", 0};
      const std::string name = fmt::format("{}{}", static_cast<char>('a' + seat), life);
      FakeSlave slave(
          run_.endpoint(), end.at, [](FakeSlave& each) { each.vanish(); },
          FakeSlave::Options{
              .name = name, .spared = end.spared, .reachable = true, .steps = mortal ? kMostSteps : 1 << 30});
      slave.run(stop_);
      if (stop_ || !mortal) return;
      ++deaths_;
      if (3 * deaths_ <= faults()) early_ = resident();
      // Its successor comes when the master knows of the death, so that a replica has one slave at most.
      run_.wait_for("slave " + name + " ", " left");
    }
  }

  /// Ends the run some steps after the last fault.
  void watch() {
    constexpr long kMore = 8;
    long last = 0;
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const long now = run_.steps_done();
      if (deaths_ < faults()) last = now;
      if (now >= last + kMore) return run_.stop();
    }
  }

  ReplicaRun& run_;
  Occasions occasions_;
  std::atomic<int> left_;
  std::atomic<int> deaths_{0};
  std::atomic<double> early_{0.0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

constexpr long kWithoutEnd = 1000000;

/// What all schemes must have survived.
void expect_survived(const MortalSeats& seats, const ReplicaResult& result) {
  EXPECT_EQ(seats.deaths(), faults());
  // A few faults show nothing, because the first ones find no free memory; later ones leave what they have taken.
  constexpr int kMany = 30;
  constexpr double kMost = 64.0;
  if (faults() >= kMany) {
    EXPECT_LT(seats.growth(), kMost) << "memory grows with the faults";
  }
  fmt::print("{} faults in {} steps; memory grew by {:.1f} MB\n", seats.deaths(), result.steps.size(), seats.growth());
  for (const ShardState& stage : result.model.trunk) {
    for (const Parameter& each : stage.parameters) EXPECT_TRUE(all_finite<float>(each.value.span()));
  }
}

/// With one slave for each replica, each computes the same bits as this machine does with the same device.
ReplicaResult train_with_faults(ReplicaRun& run, int slaves, const MakeLearner& make) {
  const MortalSeats seats(run, slaves);
  ReplicaResult result = run.train(kWithoutEnd, make);
  expect_survived(seats, result);
  return result;
}

/// Every step was done, and none twice.
void expect_every_step(const ReplicaResult& result) {
  for (std::size_t i = 0; i < result.steps.size(); ++i) ASSERT_EQ(result.steps[i], static_cast<long>(i) + 1);
  EXPECT_THAT(result.notices, Not(Contains(HasSubstr("are done again"))));
}

void expect_no_bit_lost(const MakeLearner& make) {
  ReplicaRun run(2, 2, "reference");
  run.have_no_micro_batches();
  const ReplicaResult result = train_with_faults(run, 2, make);
  expect_every_step(result);
  const ReplicaResult expected = ReplicaRun(0, 2, "reference").train(result.steps.back(), make);
  for (std::size_t s = 0; s < expected.model.trunk.size(); ++s) {
    EXPECT_TRUE(same_bits(result.model.trunk[s], expected.model.trunk[s])) << "stage " << s;
  }
  EXPECT_EQ(result.progress, expected.progress);
}

TEST(ReplicaFaults, CostJoinNoStepAndNoBit) {
  expect_no_bit_lost([](auto replicas, const Cut& cut, int batch, int parts) {
    return std::make_unique<JoinLearner>(std::move(replicas), cut, batch, parts, 0, 1);
  });
}

/// A slave that dies in its turn to receive weights or to send gradients leaves the turn to the others.
TEST(ReplicaFaults, CostJoinInTurnsAndSixteenBitsNoStepAndNoBit) {
  expect_no_bit_lost([](auto replicas, const Cut& cut, int batch, int parts) {
    auto learner = std::make_unique<JoinLearner>(std::move(replicas), cut, batch, parts, 0, 1);
    learner->transfer_in_turns();
    learner->carry_in(NumberType::bf16);
    return learner;
  });
}

/// Each replica is two slaves, which share the filters.
TEST(ReplicaFaults, CostJoinOfGroupsNoStep) {
  ReplicaRun run(4, 2, "reference");
  expect_every_step(train_with_faults(run, 4, [](auto replicas, const Cut& cut, int batch, int parts) {
    return std::make_unique<JoinLearner>(std::move(replicas), cut, batch, parts, 0, 1);
  }));
}

TEST(ReplicaFaults, CostJoinWithBackupsNoStep) {
  ReplicaRun run(3, 3, "reference");
  expect_every_step(train_with_faults(run, 3, [](auto replicas, const Cut& cut, int batch, int parts) {
    return std::make_unique<JoinLearner>(std::move(replicas), cut, batch, parts, 1, 1);
  }));
}

/// A gradient that is lost with its replica is computed again.
TEST(ReplicaFaults, CostAsynchronousTrainingNoBatch) {
  ReplicaRun run(2, 2, "reference");
  run.take_in_a_step(1);
  expect_every_step(train_with_faults(run, 2, [](auto replicas, const Cut& cut, int batch, int parts) {
    return std::make_unique<AsyncLearner>(std::move(replicas), cut, batch, parts, std::nullopt, 1);
  }));
}

TEST(ReplicaFaults, CostAsynchronousTrainingInTurnsAndInBoundsNoBatch) {
  ReplicaRun run(3, 3, "reference");
  run.take_in_a_step(1);
  expect_every_step(train_with_faults(run, 3, [](auto replicas, const Cut& cut, int batch, int parts) {
    auto learner = std::make_unique<AsyncLearner>(std::move(replicas), cut, batch, parts, 1, 1);
    learner->transfer_in_turns();
    return learner;
  }));
}

/// Members that update their own parts of the weights go back to a snapshot and do the steps after the snapshot again.
/// The losses are those of one machine up to rounding.
TEST(ReplicaFaults, TakeADistributedServerBackToASnapshot) {
  ReplicaRun run(3, 2, "reference");
  ReplicaResult result;
  {
    const MortalSeats seats(run, 3, of_one_plan());
    result = run.train_under_one_plan(kWithoutEnd, 1e-9);
    expect_survived(seats, result);
  }
  for (std::size_t i = 1; i < result.steps.size(); ++i) {
    EXPECT_LE(result.steps[i], result.steps[i - 1] + 1) << "a step is missing";
  }
  const ReplicaResult expected = ReplicaRun(0, 2, "reference").train(result.steps.back());
  EXPECT_EQ(result.progress.epoch, expected.progress.epoch);
  EXPECT_EQ(result.progress.batch, expected.progress.batch);
  EXPECT_NEAR(result.progress.epoch_loss, expected.progress.epoch_loss, 0.05 * expected.progress.epoch_loss);
}

/// Steps are done again only where the models of all replicas are lost, and then from the last exchange on.
void expect_back_to_the_last_mean(int slaves, NumberType type) {
  ReplicaRun run(slaves, 2, "reference");
  run.keep_moments();
  const auto make = [type](auto replicas, const Cut& cut, int batch, int parts) {
    auto learner = std::make_unique<LocalStepsLearner>(std::move(replicas), cut, batch, parts,
                                                       ExchangePeriod{.steps = kPeriod, .moments = 2 * kPeriod}, 1);
    learner->carry_in(type);
    return learner;
  };
  const ReplicaResult result = train_with_faults(run, slaves, make);
  for (std::size_t i = 1; i < result.steps.size(); ++i) {
    if (result.steps[i] == result.steps[i - 1] + 1) continue;
    EXPECT_THAT(result.notices, Contains(HasSubstr("are done again")));
    EXPECT_EQ((result.steps[i] - 1) % kEpoch % kPeriod, 0) << "the step after an exchange comes again";
  }
}

TEST(ReplicaFaults, TakeLocalStepsBackToTheLastMean) { expect_back_to_the_last_mean(2, NumberType::fp32); }

/// Each replica is two slaves, which know what they were loaded with only as long as their plan lasts.
TEST(ReplicaFaults, TakeLocalStepsOfGroupsInBf16BackToTheLastMean) {
  expect_back_to_the_last_mean(4, NumberType::bf16);
}

}  // namespace
}  // namespace convoy
