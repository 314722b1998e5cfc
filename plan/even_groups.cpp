#include "plan/even_groups.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace convoy {

double speed_of(const MemberProfile& member, const std::vector<Stage>& trunk) {
  double seconds = 0.0;
  for (std::size_t s = 0; s < trunk.size(); ++s) seconds += predict_seconds(member, s, trunk[s].conv.filters);
  return std::isfinite(seconds) && seconds > 0.0 ? 1.0 / seconds : 0.0;
}

std::vector<std::vector<std::size_t>> even_groups(const std::vector<double>& speeds, int groups) {
  std::vector<std::size_t> fastest_first(speeds.size());
  std::iota(fastest_first.begin(), fastest_first.end(), std::size_t{0});
  std::ranges::stable_sort(fastest_first, std::greater<>(), [&](std::size_t member) { return speeds[member]; });
  std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(groups));
  std::vector<double> sums(members.size(), 0.0);
  for (const std::size_t member : fastest_first) {
    // Of groups that are equally fast, as where speeds are 0, the smallest.
    std::size_t slowest = 0;
    for (std::size_t g = 1; g < members.size(); ++g) {
      if (std::pair(sums[g], members[g].size()) < std::pair(sums[slowest], members[slowest].size())) slowest = g;
    }
    members[slowest].push_back(member);
    sums[slowest] += speeds[member];
  }
  for (std::vector<std::size_t>& group : members) std::ranges::sort(group);
  return members;
}

}  // namespace convoy
