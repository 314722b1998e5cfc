// The study of a net's energy: its convolutions on each device, at several batch sizes and numbers of filters.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/stage.hpp"
#include "devices/registry.hpp"
#include "energy/machine.hpp"
#include "study/measure.hpp"

namespace convoy::study {

struct StudyOptions {
  std::vector<std::string> devices;
  DeviceOptions device_options;
  std::string meter;                     ///< as --meter; empty: the default
  std::vector<std::vector<Stage>> nets;  ///< the stages of each net
  std::vector<int> batches{16, 64};      ///< images in a step
  Rules rules;
  std::string out = "energy-study";  ///< folder
  std::string program;               ///< for the manifest
  /// Draws a gnuplot script of a folder, and returns whether it could; empty where the program cannot draw.
  std::function<bool(const std::string& folder, const std::string& script)> draw;
};

/// Runs the study. Prints a table, and writes study.csv, trials.csv, manifest.json and pareto.gnuplot into the folder,
/// anew after each row. Returns false if it was stopped before its end; the rows up to then are written. Throws Error
/// where a device, the meter or the folder cannot be used.
bool run_study(const StudyOptions& options, const energy::Machine& machine, const std::atomic<bool>& stop);

}  // namespace convoy::study
