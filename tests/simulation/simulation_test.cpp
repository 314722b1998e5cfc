// Tests the cluster in simulation: the shipped master and slaves in one process, over a network and under clocks that
// are simulated. What befalls them is drawn from a seed, and a seed always plays the same.
//
// CONVOY_SIMULATION_FIRST_SEED (default 1) is the first seed, CONVOY_SIMULATION_SEEDS the number of seeds,
// CONVOY_SIMULATION_SECONDS the time after which no further seed begins. With CONVOY_SIMULATION_LOG=1 every line of a
// seed's log is printed.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "core/stopwatch.hpp"
#include "devices/calibrate.hpp"
#include "tests/simulation/world.hpp"

namespace convoy::simulation {
namespace {

/// Of so many seeds one is played twice.
constexpr std::uint64_t kSeedsPerRepetition = 50;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// How a seed is played again.
std::string command_for(std::uint64_t seed) {
  return fmt::format(
      "CONVOY_SIMULATION_LOG=1 CONVOY_SIMULATION_SEEDS=1 CONVOY_SIMULATION_FIRST_SEED={} {} --gtest_filter=*ManySeeds*",
      seed, program_invocation_name);
}

/// What the seeds have come to.
struct Sums {
  std::uint64_t seeds = 0;
  std::uint64_t failed = 0;
  std::size_t steps = 0;
  std::size_t losses = 0;
  std::uint64_t events = 0;
  double simulated = 0.0;
  std::size_t most_queued = 0;
  std::size_t most_memory = 0;

  void add(const Verdict& verdict) {
    ++seeds;
    if (!verdict.violation.empty()) ++failed;
    steps += verdict.steps;
    losses += verdict.losses;
    events += verdict.events;
    simulated += verdict.seconds;
    most_queued = std::max(most_queued, verdict.most_queued);
    most_memory = std::max(most_memory, verdict.most_memory);
  }
  void print(std::uint64_t first, double seconds) const {
    fmt::print(
        "{} seeds from {} on, {} failed; {:.1f} s, {:.1f} seeds a second; {} steps, {} losses, {} events, {:.0f} "
        "simulated "
        "seconds; at most {} messages in a queue and {:.1f} MiB of memory\n",
        seeds, first, failed, seconds, static_cast<double>(seeds) / seconds, steps, losses, events, simulated,
        most_queued, static_cast<double>(most_memory) / (1 << 20));
  }
};

TEST(Simulation, ASeedAlwaysPlaysTheSame) {
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    const Scenario scenario = scenario_of(seed);
    const Verdict once = simulate(scenario, false);
    const Verdict again = simulate(scenario, false);
    EXPECT_EQ(once.log_hash, again.log_hash) << describe(scenario);
    EXPECT_EQ(once.events, again.events);
    EXPECT_GT(once.steps, 0U);
  }
  EXPECT_NE(simulate(scenario_of(3), false).log_hash, simulate(scenario_of(4), false).log_hash);
}

/// A clock that moves with each look.
class TickingClock final : public TimeSource {
 public:
  TimePoint now() override { return now_ += std::chrono::milliseconds(10); }
  void sleep_until(TimePoint time) override { now_ = std::max(now_, time); }

 private:
  TimePoint now_{std::chrono::hours(1)};
};

/// Otherwise a seed that fails on one machine would not fail on another.
TEST(Simulation, MeasuresNothingOfTheMachineOnWhichItRuns) {
  TickingClock clock;
  Clock::use(&clock);
  const HostTimes times = time_host({.threads = 0});
  Clock::use(nullptr);
  EXPECT_EQ(times.memory, 5e9);
  EXPECT_EQ(times.slowdown, 1.0);
  EXPECT_FALSE(times.spare) << "it counts the cores of this machine";
}

TEST(Simulation, OfManySeedsLosesNoStepAndNoBit) {
  constexpr std::uint64_t kSeeds = 60;
  const std::uint64_t first = number_from("CONVOY_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds = number_from("CONVOY_SIMULATION_SEEDS", kSeeds);
  const auto longest = static_cast<double>(number_from("CONVOY_SIMULATION_SECONDS", 1000000));
  const bool print = number_from("CONVOY_SIMULATION_LOG", 0) != 0;
  const Stopwatch watch;
  Sums sums;
  for (std::uint64_t seed = first; seed < first + seeds && watch.seconds() < longest; ++seed) {
    const Scenario scenario = scenario_of(seed);
    if (print) fmt::print("{}", describe(scenario));
    const Verdict verdict = simulate(scenario, print);
    EXPECT_EQ(verdict.violation, "") << describe(scenario) << "play it again: " << command_for(seed);
    if (!print && (!verdict.violation.empty() || seed % kSeedsPerRepetition == 0)) {
      const Verdict again = simulate(scenario, false);
      EXPECT_EQ(verdict.log_hash, again.log_hash) << "seed " << seed << " does not play the same again";
    }
    sums.add(verdict);
  }
  sums.print(first, watch.seconds());
}

}  // namespace
}  // namespace convoy::simulation
