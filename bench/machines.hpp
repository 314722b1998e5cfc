// The machines of a simulated cluster: described by speed and link, or as a run has timed them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"
#include "plan/calibration.hpp"
#include "plan/choose.hpp"

namespace convoy {

struct Machines {
  std::vector<double> gflops{240.0};  ///< of slaves, taken in turns
  double master_gflops = 240.0;
  double latency = 0.2;  ///< ms
  std::string from_run;  ///< folder whose members are taken in turns instead, links and all
};

void add_options(CLI::App& command, Machines& machines);

/// `slaves` of the machines, behind links of so many Mbit/s each way. Throws Error where a run's times are of another net
/// or batch.
Calibration calibration_of(const Machines& machines, const Cut& parts, int batch, int slaves, double mbits);

/// What the planner makes of so many of them, and what a step then takes.
struct SimulatedPoint {
  Choice choice;
  double seconds_alone = 0.0;  ///< of the fastest machine by itself
  int working = 0;             ///< slaves that get filters
};
SimulatedPoint simulate_point(const Cut& parts, int batch, const Calibration& calibration, const Wishes& wishes);

/// "auto": nothing.
std::optional<Exchange> exchange_wish(const std::string& name);

}  // namespace convoy
