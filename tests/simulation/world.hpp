// Plays a scenario and judges it.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/scenario.hpp"

namespace convoy::simulation {

struct Verdict {
  std::string violation;  ///< what must not be; empty where all is well
  std::uint64_t log_hash = 0;
  std::uint64_t events = 0;
  std::size_t steps = 0;
  std::size_t losses = 0;       ///< of slaves
  std::size_t most_queued = 0;  ///< messages in one connection
  std::size_t most_memory = 0;  ///< bytes that all programs together held
  double seconds = 0.0;         ///< simulated
};

/// `print`: whether every line of the log goes to stdout.
Verdict simulate(const Scenario& scenario, bool print);

}  // namespace convoy::simulation
