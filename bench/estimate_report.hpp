// The output of `convoy-bench estimate`: points of an estimate as text, as CSV and as plots.
#pragma once

#include <string>
#include <vector>

#include "bench/worker_times.hpp"

namespace convoy {

/// The training that is estimated, and the effort of the estimate.
struct EstimateTerms {
  int batches = 128;
  int skipped = 0;  ///< batches at the beginning that do not count
  bool semaphore = false;
  double jitter = 5.0;   ///< standard deviation of a gradient's time, in percent of its mean
  double latency = 0.2;  ///< of a message, in ms
  double queue = 256;    ///< of a busy card, in KiB
  int backup = 0;        ///< workers whose gradients of an iteration of sync-join are dropped
  int local_steps = 1;   ///< of a worker of sync-join between two exchanges
  /// Whether the workers of sync-join exchange models, with the optimizer's moments, instead of gradients.
  bool models = false;
  double apply = 0.0;  ///< seconds in which a server applies one gradient of all weights
  int seeds = 15;      ///< simulations of each point
};

/// Seconds of simulated trainings.
struct SimulatedRange {
  double low = 0.0;
  double median = 0.0;
  double high = 0.0;
};

/// A scheme on a server with a number of workers.
struct EstimatePoint {
  estimate::Scheme scheme = estimate::Scheme::join;
  estimate::Server server = estimate::Server::central;
  int workers = 0;
  double alone = 0.0;         ///< seconds of the training on the fastest worker alone
  estimate::Setting setting;  ///< the input of the formulas
  estimate::Bounds formula;
  SimulatedRange simulated;
  double staleness = 0.0;  ///< median over the simulations
};

/// Estimates a training. The seeds are 1, 2, 3, ..., the same for all schemes.
EstimatePoint estimate_point(const WorkerTimes& times, const EstimateTerms& terms, estimate::Scheme scheme,
                             estimate::Server server, int workers);

std::string estimate_csv(const std::vector<EstimatePoint>& points, const EstimateTerms& terms);

/// Returns a table of the points for people.
std::string estimate_table(const std::vector<EstimatePoint>& points);

/// Says which of the points is fastest by the simulation, by how much, and whether the difference is larger than the
/// ranges.
std::string comparison_of(std::vector<EstimatePoint> points);

/// Says how one more worker, twice the bandwidth, and the semaphore (or none) would change a point.
std::string changes_of(const EstimatePoint& point, const WorkerTimes& times, const EstimateTerms& terms);

/// Writes estimate.csv and, for each server, a plot of the speedups by the number of workers to `folder`. Returns the
/// names of the files, in words for people.
std::string draw_estimate(const std::vector<EstimatePoint>& points, const EstimateTerms& terms,
                          const std::string& folder);

}  // namespace convoy
