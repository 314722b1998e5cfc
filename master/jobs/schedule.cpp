#include "master/jobs/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace convoy {

std::vector<PlacedJob> longest_first(const std::vector<std::vector<double>>& seconds, std::vector<double> busy) {
  std::vector<double> lengths;
  for (const std::vector<double>& of_job : seconds) {
    lengths.push_back(of_job.empty() ? std::numeric_limits<double>::infinity() : *std::ranges::min_element(of_job));
  }
  std::vector<std::size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t job) { return lengths[job]; });
  std::vector<PlacedJob> placed;
  for (const std::size_t job : order) {
    PlacedJob best{.job = job, .to = std::numeric_limits<double>::infinity()};
    for (std::size_t machine = 0; machine < busy.size(); ++machine) {
      const double to = busy[machine] + seconds[job][machine];
      if (to < best.to) best = {.job = job, .machine = machine, .from = busy[machine], .to = to};
    }
    if (!std::isfinite(best.to)) continue;
    busy[best.machine] = best.to;
    placed.push_back(best);
  }
  return placed;
}

double makespan(const std::vector<PlacedJob>& placed) {
  double last = 0.0;
  for (const PlacedJob& each : placed) last = std::max(last, each.to);
  return last;
}

}  // namespace convoy
