#include "plan/needs.hpp"

#include <algorithm>

#include "core/shard_state.hpp"

namespace convoy {
namespace {

class Finder {
 public:
  Finder(const Plan& plan, const std::vector<Stage>& trunk)
      : plan_(plan), trunk_(trunk), needed_(needed_gradients(trunk)) {
    needs_.forward.resize(trunk.size());
    needs_.backward.resize(trunk.size());
  }

  /// Visits the stages from last to first, so that all readers of a stage's maps are known before the stage.
  Needs find(const std::vector<int>& outputs, int master) {
    const SampleRange all{0, micro_batch_size(plan_)};
    for (const int output : outputs) {
      needs_.read[output][master] = {{0, trunk_[output].conv.filters}, all};
    }
    const auto stages = static_cast<int>(trunk_.size());
    for (int s = stages - 1; s >= 0; --s) {
      if (needs_.read[s].empty()) continue;  // no node needs its maps
      find_computing(s);
      for (const Computing& each : needs_.forward[s]) need(s, each, needs_.read, true);
      for (const Computing& each : needs_.backward[s]) need(s, each, needs_.parts, false);
    }
    for (int s = 0; s < stages; ++s) find_users(s);
    for (const int output : outputs) needs_.users[output] = {master};
    return std::move(needs_);
  }

 private:
  void find_computing(int s) {
    std::vector<Computing>& forward = needs_.forward[s];
    std::vector<Computing>& backward = needs_.backward[s];
    const StagePlan& planned = plan_.stages[s];
    const Boxes& readers = needs_.read.at(s);
    if (everywhere(planned)) {
      for (const auto& [node, box] : readers) forward.push_back({node, box});
      for (const auto& [node, box] : needs_.parts[s]) backward.push_back({node, readers.at(node)});
      return;
    }
    const Box all{{0, trunk_[s].conv.filters}, {0, micro_batch_size(plan_)}};
    for (const Tile& tile : tiles_of(planned)) {
      forward.push_back({tile.member, planned.replicated ? all : tile.box()});
      if (needed_[s]) backward.push_back({tile.member, tile.box()});
    }
    if (!planned.replicated) return;
    for (const auto& [node, box] : readers) {
      if (std::ranges::find(forward, node, &Computing::node) == forward.end()) forward.push_back({node, all});
    }
  }

  /// Adds the maps that a node reads to compute a part of a stage, or those for which it computes gradients.
  void need(int s, const Computing& computing, std::map<int, Boxes>& of, bool forward) const {
    for (const Read& read : reads_for(trunk_, static_cast<std::size_t>(s), computing.box.channels)) {
      if (read.stage == Source::kZeros) continue;
      if (!forward && read.stage >= 0 && !needed_[read.stage]) continue;
      Box& box = of[read.stage][computing.node];
      box = hull(box, {read.channels, computing.box.samples});
    }
  }

  void find_users(int s) {
    for (const int value : values_read(trunk_, s)) {
      needs_.first_reader.try_emplace(value, s);
      std::vector<int>& users = needs_.users[value];
      for (const Computing& each : needs_.forward[s]) {
        const bool takes = needs_.read[value].contains(each.node);  // the stage may read it only for other nodes
        if (takes && std::ranges::find(users, each.node) == users.end()) users.push_back(each.node);
      }
    }
  }

  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  std::vector<bool> needed_;  ///< by stage, whether a step needs the gradient with respect to its maps
  Needs needs_;
};

}  // namespace

std::vector<int> values_read(const std::vector<Stage>& trunk, int stage) {
  std::vector<int> values;
  for (const Sources& read : reads_of(trunk, static_cast<std::size_t>(stage))) {
    for (const Source& source : read) {
      if (source.stage != Source::kZeros && std::ranges::find(values, source.stage) == values.end())
        values.push_back(source.stage);
    }
  }
  return values;
}

Needs find_needs(const Plan& plan, const std::vector<Stage>& trunk, const std::vector<int>& outputs, int master) {
  return Finder(plan, trunk).find(outputs, master);
}

}  // namespace convoy
