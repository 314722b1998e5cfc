#include "master/jobs/asha.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace convoy {

Ladder ladder_of(const Space& space, long full) {
  if (!space.rungs) return {.images = {full}};
  const Rungs& rungs = *space.rungs;
  if (rungs.last > full) {
    fail("{}: rungs.last is {}, but all epochs of the net have {} images; give more epochs, or a smaller last rung",
         space.file, rungs.last, full);
  }
  const long last = rungs.last > 0 ? rungs.last : full;
  if (rungs.first >= last) {
    fail("{}: rungs.first is {}, but all epochs of the net have {} images; give fewer, or leave out rungs", space.file,
         rungs.first, last);
  }
  Ladder ladder{.images = {}, .factor = rungs.factor};
  // The comparison divides, because the product may be too large for a number.
  for (long images = rungs.first; images < last; images *= rungs.factor) {
    ladder.images.push_back(images);
    if (images > last / rungs.factor) break;
  }
  ladder.images.push_back(last);
  return ladder;
}

std::optional<Promotion> promotion_after(const RungResults& results, const Ladder& ladder, Metric metric,
                                         const std::vector<Job>& open) {
  std::vector<std::vector<const RungResult*>> on(static_cast<std::size_t>(ladder.top()) + 1);
  for (const RungResult& each : results) on[each.rung].push_back(&each);
  for (int rung = ladder.top() - 1; rung >= 0; --rung) {
    std::set<int> gone;
    for (const RungResult* each : on[static_cast<std::size_t>(rung) + 1]) gone.insert(each->trial);
    for (const Job& each : open) {
      if (each.rung == rung + 1) gone.insert(each.trial);
    }
    std::vector<const RungResult*>& here = on[rung];
    std::ranges::sort(here, {}, [&](const RungResult* each) { return std::pair(cost_of(*each, metric), each->trial); });
    const std::size_t best = here.size() / static_cast<std::size_t>(ladder.factor);
    for (std::size_t i = 0; i < best; ++i) {
      if (std::isinf(cost_of(*here[i], metric)) || gone.contains(here[i]->trial)) continue;
      return Promotion{.trial = here[i]->trial, .rung = rung + 1};
    }
  }
  return std::nullopt;
}

}  // namespace convoy
