#include "exchange/residence.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace convoy {
namespace {

class Finder {
 public:
  Finder(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, const TaskGraph& testing, int node,
         const std::vector<Box>& held)
      : plan_(plan), trunk_(trunk), training_(training), testing_(testing), node_(node), held_(held) {
    const std::size_t stages = trunk.size();
    found_ = {.inputs = std::vector<std::vector<bool>>(stages),
              .leaves = std::vector<bool>(stages, false),
              .gradients = std::vector<bool>(stages, false),
              .sole_reader = std::vector<int>(stages, -1)};
    for (const Task& task : training.tasks) {
      if (task.kind == TaskKind::backward_input && task.node == node) backward_.insert(static_cast<std::size_t>(task.stage));
    }
  }

  Residence find() {
    for (std::size_t s = 0; s < trunk_.size(); ++s) find_inputs(s);
    find_leaving();
    for (std::size_t s = 0; s < trunk_.size(); ++s) find_gradient(static_cast<int>(s));
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
    if (stage >= 0) found_.leaves[static_cast<std::size_t>(stage)] = true;
  }

  void find_leaving() {
    for (const TaskGraph* graph : {&training_, &testing_}) {
      for (const Task& task : graph->tasks) {
        if (task.kind == TaskKind::send && task.node == node_ && task.cargo == Cargo::maps) leave(task.stage);
      }
    }
    if (node_ != training_.master) return;
    for (const int output : outputs_of(trunk_)) leave(output);
  }

  /// Whether the node alone adds up the gradient with respect to the stage's maps, by its tasks.
  bool adds_up_alone(int stage) const {
    const auto s = static_cast<std::size_t>(stage);
    const std::vector<int> outputs = outputs_of(trunk_);
    if (!whole(s) || std::ranges::find(outputs, stage) != outputs.end()) return false;
    return std::ranges::all_of(training_.tasks, [&](const Task& task) {
      if (task.stage != stage) return true;
      if (task.kind == TaskKind::send && (task.cargo == Cargo::part || task.cargo == Cargo::gradient)) {
        return task.node != node_ && task.to != node_;
      }
      if (task.kind != TaskKind::sum || task.node != node_) return true;
      if (task.after.size() != 1 || Box{task.filters, task.samples} != held_[s]) return false;
      const Task& part = training_.tasks[static_cast<std::size_t>(task.after[0])];
      return part.kind == TaskKind::backward_input && part.node == node_;
    });
  }

  void find_gradient(int stage) {
    if (!adds_up_alone(stage)) return;
    const auto s = static_cast<std::size_t>(stage);
    std::vector<std::pair<std::size_t, Read>> uses;
    for (const std::size_t reader : backward_) {
      for (const Read& read : reads_for(trunk_, reader, held_[reader].channels)) {
        if (read.stage != stage) continue;
        if (!whole(reader) || !same_samples(s, reader)) return;
        uses.emplace_back(reader, read);
      }
    }
    found_.gradients[s] = !uses.empty();
    if (uses.size() != 1) return;
    const auto& [reader, read] = uses.front();
    const bool as_it_stands = read.number == 0 && read.channels == held_[s].channels &&
                              trunk_[reader].channels == held_[s].channels.count;
    if (as_it_stands) found_.sole_reader[s] = static_cast<int>(reader);
  }

  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  const TaskGraph& training_;
  const TaskGraph& testing_;
  int node_;
  const std::vector<Box>& held_;
  std::set<std::size_t> backward_;  ///< stages that the node computes backward
  Residence found_;
};

}  // namespace

bool Residence::keeps_input_gradient(int stage) const {
  return std::ranges::find(sole_reader, stage) != sole_reader.end();
}

Residence find_residence(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training,
                         const TaskGraph& testing, int node, const std::vector<Box>& held) {
  return Finder(plan, trunk, training, testing, node, held).find();
}

}  // namespace convoy
