// The machines of a simulated data-parallel training, as the formulas see them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "plan/replica_events.hpp"

namespace convoy::estimate {
namespace {

/// Returns the seconds of a batch's gradient on a machine by itself, with the dense layers.
double whole_gradient(const Workers& workers, double seconds) {
  return workers.director ? seconds + workers.director->head + workers.director->head_weights : seconds;
}

}  // namespace

std::vector<NodeLink> cards_of(const Workers& workers, const ReplicaRun& run) {
  std::vector<NodeLink> cards = workers.links;
  const bool has_server = run.server == Server::central || workers.director;
  cards.push_back(has_server ? workers.server : workers.links.front());
  return cards;
}

double seconds_with_jitter(double mean, int steps, double jitter, Random& random) {
  if (jitter == 0.0) return steps * mean;
  const double deviation = std::sqrt(std::log1p(jitter * jitter));
  double seconds = 0.0;
  for (int step = 0; step < steps; ++step) {
    seconds += mean * std::exp(deviation * random.normal() - 0.5 * deviation * deviation);
  }
  return seconds;
}

int batches_of_iteration(const ReplicaRun& run, int workers) { return (workers - run.backup) * run.local_steps; }

int units_of(const ReplicaRun& run, int workers) {
  if (run.scheme != Scheme::join) return run.batches;
  const int each = batches_of_iteration(run, workers);
  return (run.batches + each - 1) / each;
}

int gradients_of(const ReplicaRun& run, int workers, int iteration) {
  if (run.scheme != Scheme::join) return workers;
  const int left = run.batches - iteration * batches_of_iteration(run, workers);
  return std::min(workers - run.backup, (left + run.local_steps - 1) / run.local_steps);
}

int micro_batches_of(const Director& director, const ReplicaRun& run) {
  return director.micro_batches * (run.scheme == Scheme::join ? run.local_steps : 1);
}

int most_units(const Workers& workers, const ReplicaRun& run, std::size_t servers) {
  constexpr double kTransfers = 20000.0;
  constexpr int kLeast = 8;
  double of_a_worker = 2.0 * static_cast<double>(servers);
  if (const auto& director = workers.director) {
    of_a_worker += static_cast<double>(director->stages.size() + director->known.size());
    of_a_worker += micro_batches_of(*director, run) + 2.0;
  }
  const auto count = static_cast<int>(workers.gradient.size());
  const int half = std::max(kLeast, static_cast<int>(0.5 * kTransfers / (of_a_worker * count)));
  return 2 * half * (run.scheme == Scheme::async ? count : 1);
}

double end_of_unit(const std::vector<double>& ends, int unit) {
  const auto simulated = static_cast<int>(ends.size());
  if (unit == 0) return 0.0;
  if (unit <= simulated) return ends[unit - 1];
  const int half = simulated / 2;
  const double second_half = ends.back() - ends[half - 1];
  return ends.back() + second_half / (simulated - half) * (unit - simulated);
}

Setting setting_of(const Workers& workers, const ReplicaRun& run) {
  const auto count = static_cast<int>(workers.gradient.size());
  Setting setting{.scheme = run.scheme,
                  .server = run.server,
                  .workers = count,
                  .batches = run.batches,
                  .local_steps = run.scheme == Scheme::join ? run.local_steps : 1};
  double least = std::numeric_limits<double>::infinity();
  for (const NodeLink& link : workers.links) least = std::min({least, link.out, link.in});
  if (run.server == Server::central) least = std::min({least, workers.server.out, workers.server.in});
  setting.transfer = workers.bytes / least;
  setting.gradient = whole_gradient(workers, std::ranges::max(workers.gradient));
  if (run.scheme == Scheme::async) {
    double batches_a_second = 0.0;
    for (const double seconds : workers.gradient) batches_a_second += 1.0 / whole_gradient(workers, seconds);
    setting.gradient = count / batches_a_second;
  }
  return setting;
}

double seconds_alone(const Workers& workers, int batches) {
  return batches * whole_gradient(workers, std::ranges::min(workers.gradient));
}

std::vector<double> spread(const std::vector<double>& tensors, std::size_t servers) {
  if (tensors.empty()) return std::vector<double>(servers, 1.0 / static_cast<double>(servers));
  std::vector<double> parts(servers, 0.0);
  for (const double tensor : tensors) *std::ranges::min_element(parts) += tensor;
  const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
  for (double& part : parts) part /= all;
  return parts;
}

}  // namespace convoy::estimate
