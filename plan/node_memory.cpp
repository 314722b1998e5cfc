#include "plan/node_memory.hpp"

#include <algorithm>
#include <cmath>

#include "core/shard_state.hpp"

namespace convoy {
namespace {

void extend(Box& box, const Box& more) { box = hull(box, more); }

/// Returns the values of a box of a stage's maps, in all micro-batches.
std::size_t values_in(const Plan& plan, const std::vector<Stage>& trunk, int stage, const Box& box) {
  return maps_shape(trunk, stage, box.samples.count * plan.micro_batches, box.channels.count).size();
}

/// Returns the values of the trained parameters of some filters.
std::size_t trained_values(const Stage& stage, int filters) {
  std::size_t values = 0;
  for (const ParameterSpec& each : parameters_of(stage, filters)) {
    if (each.trained) values += each.shape.size();
  }
  return values;
}

}  // namespace

HostBoxes host_boxes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training,
                     const Residence& residence, int node) {
  HostBoxes boxes;
  const bool fused = traits_of(plan.exchange).fused_stages;
  const std::vector<bool> needed = fused ? needed_gradients(trunk) : std::vector<bool>(trunk.size(), true);
  const TaskKind makes_maps = fused ? TaskKind::forward : TaskKind::layers;
  for (const Task& each : training.tasks) {
    const Box box{each.filters, each.samples};
    if (each.to == node && each.cargo == Cargo::maps) extend(boxes.maps[each.stage], box);
    if (each.to == node && each.cargo == Cargo::gradient) extend(boxes.gradients[each.stage], box);
    if (each.node != node) continue;
    if (each.kind == makes_maps && (!fused || residence.leaves[each.stage])) extend(boxes.maps[each.stage], box);
    if (each.kind == TaskKind::sum && !residence.gradients[each.stage]) extend(boxes.gradients[each.stage], box);
    if (each.kind != TaskKind::backward_input) continue;
    if (everywhere(plan.stages[each.stage]) && !residence.gradients[each.stage]) extend(boxes.parts[each.stage], box);
    for (const Read& read : reads_for(trunk, static_cast<std::size_t>(each.stage), each.filters)) {
      if (read.stage < 0 || !needed[read.stage]) continue;
      if (!residence.gradients[read.stage]) extend(boxes.parts[read.stage], {read.channels, each.samples});
      boxes.first_reader[read.stage] = std::max(boxes.first_reader[read.stage], each.stage);
    }
  }
  if (node == training.master) {
    const SampleRange all{0, micro_batch_size(plan)};
    extend(boxes.maps[Source::kImages], {{0, trunk[0].channels}, all});
    for (const int output : outputs_of(trunk)) {
      extend(boxes.maps[output], {{0, trunk[output].conv.filters}, all});
      if (!residence.from_heads[output]) extend(boxes.gradients[output], {{0, trunk[output].conv.filters}, all});
    }
  }
  return boxes;
}

std::size_t shards_bytes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int node,
                         int filter_block) {
  const std::vector<Box> held = held_boxes(plan, training, node);
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    bytes += shard_bytes(trunk[s], held[s].channels.count, held[s].samples.count * plan.micro_batches,
                         needs_input_gradient(trunk, s), filter_block);
  }
  return bytes;
}

std::size_t host_bytes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int node) {
  const HostBoxes boxes = host_boxes(plan, trunk, training, find_residence(plan, trunk, {&training}, node), node);
  std::size_t bytes = 0;
  std::size_t floats = 0;
  for (const auto* slabs : {&boxes.maps, &boxes.gradients, &boxes.parts}) {
    for (const auto& [stage, box] : *slabs) {
      (stage == Source::kImages ? bytes : floats) += values_in(plan, trunk, stage, box);
    }
  }
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    bytes += state_bytes(trunk[s], own_filters(plan, s, node).count);
    if (!has_several_rows(plan.stages[s])) continue;
    floats += 2 * trained_values(trunk[s], tile_of(plan.stages[s], node).filters.count);
  }
  double weights = 0.0;
  double gradients = 0.0;
  double sums = 0.0;
  std::map<int, double> maps;  // by stage
  for (const Task& task : training.tasks) {
    if (task.kind != TaskKind::send || (task.node != node && task.to != node)) continue;
    double& sent = task.cargo == Cargo::weights       ? weights
                   : task.cargo == Cargo::filter_part ? gradients
                   : task.cargo == Cargo::filter_sum  ? sums
                                                      : maps[task.stage];
    sent += bytes_of(task, plan, trunk);
  }
  double most = 0.0;
  for (const auto& [stage, sent] : maps) most = std::max(most, sent);
  return bytes + floats * sizeof(float) + static_cast<std::size_t>(weights + std::max(gradients, sums) + most);
}

std::size_t memory_taken(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int member,
                         const MemberProfile& of) {
  const std::size_t shards = shards_bytes(plan, trunk, training, member, of.filter_block);
  if (of.memory_factor == 0.0) return shards;
  const double host = static_cast<double>(host_bytes(plan, trunk, training, member)) / of.memory_factor;
  return shards + static_cast<std::size_t>(std::ceil(host));
}

}  // namespace convoy
