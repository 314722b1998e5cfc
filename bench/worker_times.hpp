// The times of workers, for an estimate of data-parallel training: given as options, measured on this machine, or read
// from the folder of a run.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/director.hpp"
#include "plan/replica_simulation.hpp"

namespace convoy {

/// Where the times come from. Times that are given take the place of measured ones.
struct TimeSources {
  std::vector<double> gradient;  ///< seconds, by worker; may be empty
  std::vector<double> transfer;  ///< seconds, by worker; may be empty
  std::string net;               ///< net file that is measured; may be empty
  std::vector<std::string> set;
  std::string device = "cpu";
  int threads = 0;
  int batch = 0;  ///< 0: the net file's
  int repeats = 5;
  std::string from_run;         ///< folder of a run; may be empty
  std::optional<double> mbits;  ///< of each machine's link, each way
  std::string wire = "fp32";
  bool master = false;  ///< with from_run: the training is one of convoy-master
};

/// The times of some workers. Larger numbers of workers repeat them.
struct WorkerTimes {
  std::vector<double> gradient;  ///< seconds of a batch's gradient
  std::vector<NodeLink> links;
  NodeLink server;  ///< of a machine that holds all weights
  double bytes = 1.0;
  ModelBytes model;  ///< of convoy-master's replicas; 0 where it is not known
  std::vector<double> tensors;
  std::optional<estimate::Director> director;
  std::vector<std::string> notes;  ///< sentences that say where the numbers come from

  std::size_t count() const { return std::max(gradient.size(), links.size()); }
  /// Returns `count` workers on machines without latency and without work for servers.
  estimate::Workers workers(int count) const;
};

/// Reads or measures the times. Throws Error where a source is missing, or is not what it is said to be.
WorkerTimes worker_times(const TimeSources& sources);

}  // namespace convoy
