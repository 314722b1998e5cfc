#include "master/cluster/verifiable.hpp"

#include <algorithm>
#include <map>

namespace convoy {
namespace {

/// The channels of each stage's maps that the master has in a step for all samples, whether it computes or receives
/// them.
class MastersMaps {
 public:
  MastersMaps(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& graph)
      : samples_(micro_batch_size(plan)) {
    add(Source::kImages, {0, trunk[0].channels}, samples_);
    for (const Task& task : graph.tasks) {
      if (task.micro_batch > 0) continue;  // all micro-batches travel alike
      const bool made = task.kind == TaskKind::forward && task.node == graph.master;
      const bool sent = task.kind == TaskKind::send && task.cargo == Cargo::maps && task.to == graph.master;
      if (made || sent) add(task.stage, task.filters, task.samples.count);
    }
  }

  bool has(const Read& read) const {
    if (read.stage == Source::kZeros) return true;
    const auto found = here_.find(read.stage);
    if (found == here_.end()) return false;
    for (int c = read.channels.first; c < read.channels.first + read.channels.count; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      if (channel >= found->second.size() || found->second[channel] < samples_) return false;
    }
    return true;
  }

 private:
  void add(int stage, FilterRange channels, int samples) {
    std::vector<int>& here = here_[stage];
    const auto end = static_cast<std::size_t>(channels.first + channels.count);
    if (here.size() < end) here.resize(end, 0);
    for (auto c = static_cast<std::size_t>(channels.first); c < end; ++c) here[c] += samples;
  }

  int samples_;
  std::map<int, std::vector<int>> here_;  ///< by stage and channel, the samples of a micro-batch that are here
};

/// Whether another stage that the node computes backward adds to its part of the gradient with respect to the maps of
/// stage `value`.
bool others_add(const VerifiableTile& tile, int value, const std::vector<Stage>& trunk, const TaskGraph& graph) {
  return std::ranges::any_of(graph.tasks, [&](const Task& task) {
    if (task.kind != TaskKind::backward_input || task.node != tile.node) return false;
    if (task.stage == static_cast<int>(tile.stage)) return false;
    const auto reads = reads_for(trunk, static_cast<std::size_t>(task.stage), task.filters);
    return std::ranges::find(reads, value, &Read::stage) != reads.end();
  });
}

void find_sends(VerifiableTile& tile, const std::vector<Read>& reads, const std::vector<Stage>& trunk,
                const TaskGraph& graph) {
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    if (task.kind != TaskKind::send) continue;
    const auto index = static_cast<int>(i);
    const bool of_stage = task.stage == static_cast<int>(tile.stage);
    const bool to_master = task.node == tile.node && task.to == graph.master;
    if (of_stage && to_master && task.cargo == Cargo::maps) tile.maps.push_back(index);
    if (of_stage && task.node == graph.master && task.to == tile.node && task.cargo == Cargo::gradient) {
      tile.gradients.push_back(index);
    }
    const bool read = std::ranges::find(reads, task.stage, &Read::stage) != reads.end();
    if (read && to_master && task.cargo == Cargo::part && !others_add(tile, task.stage, trunk, graph)) {
      tile.parts.push_back(index);
    }
  }
  if (tile.gradients.empty()) tile.parts.clear();
}

}  // namespace

std::vector<VerifiableTile> verifiable_tiles(const Plan& plan, const std::vector<Stage>& trunk,
                                             const TaskGraph& graph) {
  std::vector<VerifiableTile> tiles;
  if (!traits_of(plan.exchange).fused_stages || !traits_of(plan.exchange).master_sums) return tiles;
  const MastersMaps here(plan, trunk, graph);
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    // Members of other rows would have a say in the weights of a stage with several.
    if (plan.stages[s].replicated || plan.stages[s].rows.size() != 1) continue;
    for (const Assignment& shard : plan.stages[s].rows.front().shards) {
      if (shard.member == graph.master) continue;
      const std::vector<Read> reads = reads_for(trunk, s, shard.filters);
      if (!std::ranges::all_of(reads, [&](const Read& read) { return here.has(read); })) continue;
      VerifiableTile tile{
          .stage = s, .node = shard.member, .filters = shard.filters, .maps = {}, .gradients = {}, .parts = {}};
      find_sends(tile, reads, trunk, graph);
      if (!tile.maps.empty() || !tile.gradients.empty()) tiles.push_back(std::move(tile));
    }
  }
  return tiles;
}

}  // namespace convoy
