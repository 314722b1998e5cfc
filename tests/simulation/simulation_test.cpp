// Tests the cluster in simulation: the shipped master and slaves in one process, over a network and under clocks that are
// simulated. What befalls them is drawn from a seed, and a seed always plays the same.
//
// CONVOY_SIMULATION_FIRST_SEED (default 1) is the first seed, CONVOY_SIMULATION_SEEDS the number of seeds,
// CONVOY_SIMULATION_SECONDS the time after which no further seed begins. With CONVOY_SIMULATION_LOG=1 every line of a
// seed's log is printed.

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/stopwatch.hpp"
#include "tests/simulation/world.hpp"

namespace convoy::simulation {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

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

TEST(Simulation, OfManySeedsLosesNoStepAndNoBit) {
  constexpr std::uint64_t kSeeds = 100;
  const std::uint64_t first = number_from("CONVOY_SIMULATION_FIRST_SEED", 1);
  const std::uint64_t seeds = number_from("CONVOY_SIMULATION_SEEDS", kSeeds);
  const auto longest = static_cast<double>(number_from("CONVOY_SIMULATION_SECONDS", 1000000));
  const bool print = number_from("CONVOY_SIMULATION_LOG", 0) != 0;
  const Stopwatch watch;
  Verdict sums;
  std::uint64_t seed = first;
  for (; seed < first + seeds && watch.seconds() < longest; ++seed) {
    const Scenario scenario = scenario_of(seed);
    if (print) fmt::print("{}", describe(scenario));
    const Verdict verdict = simulate(scenario, print);
    EXPECT_EQ(verdict.violation, "") << describe(scenario)
                                     << "play it again: CONVOY_SIMULATION_LOG=1 CONVOY_SIMULATION_SEEDS=1 "
                                        "CONVOY_SIMULATION_FIRST_SEED="
                                     << seed << " simulation_test --gtest_filter=*ManySeeds*";
    sums.steps += verdict.steps;
    sums.losses += verdict.losses;
    sums.events += verdict.events;
    sums.seconds += verdict.seconds;
    sums.most_queued = std::max(sums.most_queued, verdict.most_queued);
  }
  const double seconds = watch.seconds();
  fmt::print(
      "{} seeds from {} on in {:.1f} s ({:.0f} an hour): {} steps, {} losses, {} events, {:.0f} simulated seconds; at "
      "most {} "
      "messages in a queue\n",
      seed - first, first, seconds, 3600.0 * static_cast<double>(seed - first) / seconds, sums.steps, sums.losses,
      sums.events, sums.seconds, sums.most_queued);
}

}  // namespace
}  // namespace convoy::simulation
