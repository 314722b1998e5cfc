#include "master/jobs/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace convoy {
namespace {

constexpr double kNeverFree = std::numeric_limits<double>::infinity();

using Machines = std::vector<std::size_t>;

/// The time of a job on a group.
double together(const std::vector<double>& seconds, const Machines& machines, const Placing& placing) {
  double speed = 0.0;
  for (const std::size_t each : machines) speed += 1.0 / seconds[each];
  const auto slowdown = placing.slowdowns.find(machines.size());
  return (slowdown == placing.slowdowns.end() ? 1.0 : slowdown->second) / speed;
}

/// The `count` fastest of some machines for a job.
Machines fastest(const std::vector<double>& seconds, Machines machines, std::size_t count) {
  std::ranges::stable_sort(machines, {}, [&](std::size_t each) { return seconds[each]; });
  machines.resize(count);
  std::ranges::sort(machines);
  return machines;
}

/// The machines of which a job can have a group, those that are free first at the front.
Machines joining(const std::vector<double>& seconds, const Placing& placing) {
  Machines machines;
  for (std::size_t each = 0; each < placing.joins.size(); ++each) {
    if (placing.joins[each] && std::isfinite(seconds[each]) && std::isfinite(placing.busy[each]))
      machines.push_back(each);
  }
  std::ranges::stable_sort(machines, {}, [&](std::size_t each) { return placing.busy[each]; });
  return machines;
}

/// The number of machines of a job's group, of those that can join; 1 for no group.
std::size_t group_of(std::size_t job, const Machines& joins, const Placing& placing) {
  const std::size_t wanted = job < placing.groups.size() ? placing.groups[job] : 1;
  return std::max<std::size_t>(1, std::min(wanted, joins.size()));
}

double length_of(std::size_t job, const std::vector<double>& seconds, const Placing& placing) {
  const Machines joins = joining(seconds, placing);
  if (const std::size_t count = group_of(job, joins, placing); count > 1) {
    return together(seconds, fastest(seconds, joins, count), placing);
  }
  return seconds.empty() ? kNeverFree : *std::ranges::min_element(seconds);
}

/// The time of a machine that waits until the other machines of its group are free.
struct Wait {
  std::size_t machine = 0;
  double from = 0.0;
  double to = 0.0;
};

/// The placing of a job on one machine: after its other jobs, or in a wait that is long enough, which becomes shorter.
PlacedJob on_one(std::size_t job, const std::vector<double>& seconds, const Placing& placing,
                 std::vector<Wait>& waits) {
  PlacedJob best{.job = job, .to = kNeverFree};
  Wait* within = nullptr;
  const auto offer = [&](std::size_t machine, double from, Wait* wait) {
    const double to = from + seconds[machine];
    if (to >= best.to || (wait != nullptr && to > wait->to)) return;
    best = {.job = job, .machine = machine, .from = from, .to = to};
    within = wait;
  };
  for (std::size_t machine = 0; machine < placing.busy.size(); ++machine)
    offer(machine, placing.busy[machine], nullptr);
  for (Wait& each : waits) offer(each.machine, each.from, &each);
  if (within != nullptr) within->from = best.to;
  return best;
}

PlacedJob on_group(std::size_t job, const std::vector<double>& seconds, const Placing& placing, const Machines& joins,
                   std::size_t count) {
  PlacedJob best{.job = job, .to = kNeverFree};
  for (std::size_t free = count; free <= joins.size(); ++free) {
    const Machines group = fastest(seconds, {joins.begin(), joins.begin() + static_cast<std::ptrdiff_t>(free)}, count);
    double from = 0.0;
    for (const std::size_t each : group) from = std::max(from, placing.busy[each]);
    const double to = from + together(seconds, group, placing);
    if (to < best.to) {
      best = {.job = job, .machine = group[0], .from = from, .to = to, .others = {group.begin() + 1, group.end()}};
    }
  }
  return best;
}

}  // namespace

std::vector<PlacedJob> place_longest_first(const std::vector<std::vector<double>>& seconds, Placing placing) {
  std::vector<double> lengths;
  for (std::size_t job = 0; job < seconds.size(); ++job) lengths.push_back(length_of(job, seconds[job], placing));
  std::vector<std::size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t job) { return lengths[job]; });
  std::vector<PlacedJob> placed;
  std::vector<Wait> waits;
  for (const std::size_t job : order) {
    const Machines joins = joining(seconds[job], placing);
    const std::size_t count = group_of(job, joins, placing);
    PlacedJob best =
        count > 1 ? on_group(job, seconds[job], placing, joins, count) : on_one(job, seconds[job], placing, waits);
    if (!std::isfinite(best.to)) continue;
    const auto take = [&](std::size_t machine) {
      double& busy = placing.busy[machine];
      if (busy < best.from) waits.push_back({.machine = machine, .from = busy, .to = best.from});
      busy = std::max(busy, best.to);
    };
    take(best.machine);
    for (const std::size_t each : best.others) take(each);
    placed.push_back(std::move(best));
  }
  return placed;
}

std::vector<PlacedJob> longest_first(const std::vector<std::vector<double>>& seconds, std::vector<double> busy) {
  return place_longest_first(seconds, {.busy = std::move(busy)});
}

double makespan(const std::vector<PlacedJob>& placed) {
  double last = 0.0;
  for (const PlacedJob& each : placed) last = std::max(last, each.to);
  return last;
}

}  // namespace convoy
