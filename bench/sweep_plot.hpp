// The table of a sweep and its plots.
#pragma once

#include <string>
#include <vector>

namespace convoy {

/// One point of the grid with its measurements.
struct SweepPoint {
  std::string filters;
  int batch = 0;
  int slaves = 0;
  double mbits = 0.0;  ///< 0: loopback
  std::string exchange;
  std::string wire;
  double seconds = 0.0;  ///< median seconds of a step, and their quartiles
  double low = 0.0;
  double high = 0.0;
  double alone = 0.0;       ///< seconds of a step on one machine
  int working = 0;          ///< slaves that get filters
  double master_mib = 0.0;  ///< peak memory; 0: not measured
  double slave_mib = 0.0;
  std::string plan;
  double joules_per_image = 0.0;  ///< 0: not known
  std::string watts_not_known;    ///< names of the machines whose power is not known
};

std::string csv_header();
std::string csv_row(const SweepPoint& point);

/// Plots speedup, seconds and, where measured, memory against every parameter with several values, with a line for each
/// combination of the others. Returns the names of the files, in words for people.
std::string draw_sweep(const std::vector<SweepPoint>& points, const std::string& folder);

}  // namespace convoy
