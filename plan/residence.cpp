#include "plan/residence.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/shard_state.hpp"

namespace convoy {
namespace {

class ResidenceFinder {
 public:
  ResidenceFinder(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int node)
      : plan_(plan),
        trunk_(trunk),
        node_(node),
        held_(held_boxes(plan, training, node)),
        outputs_(outputs_of(trunk)),
        needed_(needed_gradients(trunk)) {
    const std::size_t stages = trunk.size();
    found_ = {.inputs = std::vector<std::vector<bool>>(stages),
              .leaves = std::vector<bool>(stages, false),
              .gradients = std::vector<bool>(stages, true),
              .sole_reader = std::vector<int>(stages, -1),
              .from_heads = std::vector<bool>(stages, false)};
    for (const int output : outputs_) found_.gradients[output] = false;
    if (node == training.master) std::ranges::for_each(outputs_, [this](int output) { leave(output); });
    // In a star the master verifies slaves by the maps that it has itself. The scheme of the thesis sends all maps.
    const bool slaves = training.master > 0;
    const bool all = slaves && (!traits_of(plan.exchange).fused_stages || plan.exchange == Exchange::star);
    if (node == training.master && all) found_.leaves.assign(stages, true);
  }

  Residence find(const std::vector<const TaskGraph*>& graphs) {
    for (std::size_t s = 0; s < trunk_.size(); ++s) find_inputs(s);
    for (const TaskGraph* graph : graphs) find_leaving(*graph);
    for (const Task& task : graphs.front()->tasks) look_at_gradient(*graphs.front(), task);
    find_uses();
    find_heads(*graphs.front());
    return std::move(found_);
  }

 private:
  /// Whether one shard of the node computes all channels of the stage for the samples that the node has.
  bool whole(std::size_t stage) const {
    const FilterRange all{0, trunk_[stage].conv.filters};
    const FilterRange own = tile_of(plan_.stages[stage], node_).filters;
    return traits_of(plan_.exchange).fused_stages && held_[stage].channels == all && (own == all || own.count == 0);
  }
  bool computes(std::size_t stage) const { return held_[stage].channels.count > 0; }
  bool same_samples(std::size_t a, std::size_t b) const { return held_[a].samples == held_[b].samples; }

  void find_inputs(std::size_t reader) {
    const std::vector<Sources> reads = reads_of(trunk_, reader);
    for (std::size_t number = 0; number < reads.size(); ++number) {
      const auto made_here = [&](const Source& source) {
        if (source.stage < 0) return source.stage == Source::kZeros;
        const auto stage = static_cast<std::size_t>(source.stage);
        return whole(stage) && same_samples(stage, reader);
      };
      const bool maps = std::ranges::any_of(reads[number], [](const Source& source) { return source.stage >= 0; });
      // The input of an Add layer has the channels of the shard's filters alone.
      const bool fits = number == 0 || whole(reader);
      const bool here = computes(reader) && maps && fits && std::ranges::all_of(reads[number], made_here);
      found_.inputs[reader].push_back(here);
      if (here || !computes(reader)) continue;
      for (const Source& source : reads[number]) leave(source.stage);
    }
  }

  void leave(int stage) {
    if (stage >= 0) found_.leaves[stage] = true;
  }

  void find_leaving(const TaskGraph& graph) {
    for (const Task& task : graph.tasks) {
      if (task.kind == TaskKind::send && task.node == node_ && task.cargo == Cargo::maps) leave(task.stage);
    }
  }

  /// Notes the stages of which other nodes add to the gradient, and those that the node computes backward.
  void look_at_gradient(const TaskGraph& graph, const Task& task) {
    if (task.node == node_ && task.kind == TaskKind::backward_input) {
      backward_.insert(static_cast<std::size_t>(task.stage));
      return;
    }
    bool elsewhere = false;
    if (task.kind == TaskKind::send && (task.cargo == Cargo::part || task.cargo == Cargo::gradient)) {
      elsewhere = task.node == node_ || task.to == node_;
    } else if (task.kind == TaskKind::sum && task.node == node_) {
      const bool own = task.after.size() == 1 && graph.tasks[task.after[0]].kind == TaskKind::backward_input;
      elsewhere = !own || Box{task.filters, task.samples} != held_[task.stage];
    }
    if (elsewhere) found_.gradients[task.stage] = false;
  }

  /// Finds who adds to each gradient on the node.
  void find_uses() {
    std::vector<int> uses(trunk_.size(), 0);
    for (const std::size_t reader : backward_) {
      for (const Read& read : reads_for(trunk_, reader, held_[reader].channels)) {
        if (read.stage < 0) continue;
        const auto s = static_cast<std::size_t>(read.stage);
        if (!needed_[s]) continue;
        if (!whole(s) || !whole(reader) || !same_samples(s, reader)) found_.gradients[s] = false;
        const bool as_it_stands = read.number == 0 && read.channels == held_[s].channels &&
                                  trunk_[reader].channels == held_[s].channels.count;
        found_.sole_reader[s] = ++uses[s] == 1 && as_it_stands ? static_cast<int>(reader) : -1;
      }
    }
    for (std::size_t s = 0; s < trunk_.size(); ++s) {
      if (uses[s] == 0) found_.gradients[s] = false;
      if (!found_.gradients[s]) found_.sole_reader[s] = -1;
    }
  }

  void find_heads(const TaskGraph& graph) {
    if (node_ != graph.master) return;
    const SampleRange all{0, micro_batch_size(plan_)};
    for (const int output : outputs_) {
      const auto s = static_cast<std::size_t>(output);
      const bool sent = std::ranges::any_of(graph.tasks, [&](const Task& task) {
        return task.kind == TaskKind::send && task.cargo == Cargo::gradient && task.stage == output;
      });
      const bool own = tile_of(plan_.stages[s], node_).filters.count > 0;
      found_.from_heads[s] = own && whole(s) && held_[s].samples == all && !everywhere(plan_.stages[s]) && !sent;
    }
  }

  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  int node_;
  std::vector<Box> held_;
  std::vector<int> outputs_;
  std::vector<bool> needed_;        ///< by stage, whether a step needs the gradient with respect to its maps
  std::set<std::size_t> backward_;  ///< stages that the node computes backward
  Residence found_;
};

}  // namespace

bool Residence::keeps_input_gradient(int stage) const {
  return std::ranges::find(sole_reader, stage) != sole_reader.end();
}

Residence find_residence(const Plan& plan, const std::vector<Stage>& trunk, const std::vector<const TaskGraph*>& graphs,
                         int node) {
  return ResidenceFinder(plan, trunk, *graphs.front(), node).find(graphs);
}

}  // namespace convoy
