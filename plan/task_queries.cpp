// Queries of a task graph.

#include "core/shard_state.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

int master_of(const Plan& plan) {
  const auto members = static_cast<int>(plan.members.size());
  return !plan.members.empty() && plan.members.back() == kMasterName ? members - 1 : members;
}

std::vector<std::vector<int>> followers_of(const TaskGraph& graph) {
  std::vector<std::vector<int>> followers(graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const int before : graph.tasks[i].after) followers[before].push_back(static_cast<int>(i));
  }
  return followers;
}

FilterRange own_filters(const Plan& plan, std::size_t stage, int node) {
  for (const Assignment& shard : plan.stages[stage].shards) {
    if (shard.member == node) return shard.filters;
  }
  return {};
}

FilterRange held_filters(const Plan& plan, const TaskGraph& graph, std::size_t stage, int node) {
  if (traits_of(plan.exchange).master_holds_weights && node == graph.master) return {0, filters_in(plan.stages[stage])};
  FilterRange held = own_filters(plan, stage, node);
  for (const Task& task : graph.tasks) {
    const bool here = task.node == node && task.kind == TaskKind::forward && task.stage == static_cast<int>(stage);
    if (here && task.filters.count > held.count) held = task.filters;
  }
  return held;
}

bool needs_credit(const Task& task, const TaskGraph& graph, const Plan& plan) {
  return task.kind == TaskKind::send && task.cargo == Cargo::part && task.to == graph.master &&
         traits_of(plan.exchange).master_sums;
}

NumberType wire_type(const Task& sent, const Plan& plan) {
  if (sent.cargo == Cargo::weights) return NumberType::fp32;
  const bool maps = sent.cargo == Cargo::maps || sent.cargo == Cargo::raw_maps;
  return plan.wire == NumberType::int8 && maps ? NumberType::bf16 : plan.wire;
}

std::size_t values_of(const Task& sent, const Plan& plan, const std::vector<Stage>& trunk) {
  const auto s = static_cast<std::size_t>(sent.stage);
  if (sent.cargo == Cargo::weights) {
    std::size_t values = 0;
    for (const ParameterSpec& each : parameters_of(trunk[s], sent.filters.count)) values += each.shape.size();
    return values;
  }
  const int samples = plan.batch / plan.micro_batches;
  if (sent.cargo == Cargo::raw_maps || sent.cargo == Cargo::raw_gradient) {
    return conv_shape(trunk[s], samples, sent.filters.count).size();
  }
  return maps_shape(trunk, sent.stage, samples, sent.filters.count).size();
}

double bytes_of(const Task& task, const Plan& plan, const std::vector<Stage>& trunk) {
  if (task.kind != TaskKind::send) return 0.0;
  return static_cast<double>(bytes_of(wire_type(task, plan), values_of(task, plan, trunk)));
}

std::vector<Traffic> traffic_of(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk) {
  std::vector<Traffic> traffic(static_cast<std::size_t>(graph.nodes));
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::send) continue;
    const double bytes = bytes_of(task, plan, trunk);
    traffic[static_cast<std::size_t>(task.node)].sent += bytes;
    traffic[static_cast<std::size_t>(task.to)].received += bytes;
  }
  return traffic;
}

}  // namespace convoy
