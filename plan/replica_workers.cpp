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
