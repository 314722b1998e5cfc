// The machines of a simulated cluster, described by speed and link, or timed by a run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"
#include "plan/calibration.hpp"
#include "plan/choose.hpp"

namespace convoy {

/// The options that describe machines.
struct Machines {
  std::vector<double> gflops{240.0};  ///< speeds of the slaves; repeated if there are more slaves
  double master_gflops = 240.0;
  double latency = 0.2;            ///< ms
  std::vector<std::string> watts;  ///< power of the slaves, such as 5:25:8; repeated like gflops; may be empty
  std::string master_watts;        ///< power of the master; may be empty
  Objective objective = Objective::time;
  EnergyTerms terms;
  /// Folder of a run whose timed members and links replace the given speeds and links; they are repeated if there are
  /// more slaves than members. May be empty.
  std::string from_run;
};

void add_options(CLI::App& command, Machines& machines);

/// Returns the calibration of a cluster of `slaves` of the machines, on links of `mbits` Mbit/s each way. Throws Error
/// if the run had another net or batch.
Calibration calibration_of(const Machines& machines, const Cut& parts, int batch, int slaves, double mbits);

/// Returns the joules of a step for each image, as text; an empty text if the power of a machine is not known.
std::string joules_per_image(const StepEnergy& energy, int batch);
/// Returns the names of the machines whose power is not known, such as "slave1 slave2".
std::string unknown_power(const StepEnergy& energy);

/// The planner's choice for a number of machines, and the simulated time of its step.
struct SimulatedPoint {
  Choice choice;
  std::string plan;            ///< the chosen plan in words
  double seconds_alone = 0.0;  ///< seconds of a step on the fastest machine alone
  int working = 0;             ///< slaves that get filters
};
SimulatedPoint simulate_point(const Cut& parts, const Calibration& calibration, const Wishes& wishes);

/// Returns the exchange of this name, or nothing for "auto".
std::optional<Exchange> exchange_wish(const std::string& name);

}  // namespace convoy
