// Queries of a task graph.

#include <algorithm>

#include "core/shard_state.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

int master_of(const Plan& plan) {
  const auto members = static_cast<int>(plan.members.size());
  return has_master(plan) ? members - 1 : members;
}

std::vector<std::vector<int>> followers_of(const TaskGraph& graph) {
  std::vector<std::vector<int>> followers(graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const int before : graph.tasks[i].after) followers[before].push_back(static_cast<int>(i));
  }
  return followers;
}

FilterRange own_filters(const Plan& plan, std::size_t stage, int node) {
  for (const Assignment& owner : owners_of(plan.stages[stage])) {
    if (owner.member == node) return owner.filters;
  }
  return {};
}

std::vector<FilterRange> updated_filters(const Plan& plan, std::size_t stage, int node) {
  const StagePlan& cut = plan.stages[stage];
  std::vector<FilterRange> updated;
  for (const Assignment& owner : owners_of(cut)) {
    FilterRange part{};
    if (owner.member == node) {
      part = owner.filters;
    } else if (has_several_rows(cut) && takes_sums(plan, owner.member, node)) {
      part = common(tile_of(cut, node).filters, owner.filters);
    }
    if (part.count == 0) continue;
    if (!updated.empty() && updated.back().first + updated.back().count == part.first) {
      updated.back().count += part.count;
    } else {
      updated.push_back(part);
    }
  }
  return updated;
}

std::vector<Box> held_boxes(const Plan& plan, const TaskGraph& graph, int node) {
  const SampleRange all{0, micro_batch_size(plan)};
  const bool everything = traits_of(plan.exchange).master_holds_weights && node == graph.master;
  std::vector<Box> held;
  for (const StagePlan& stage : plan.stages) {
    held.push_back(everything ? Box{{0, filters_in(stage)}, all} : tile_of(stage, node).box());
  }
  for (const Task& task : graph.tasks) {
    if (everything || task.node != node || task.kind != TaskKind::forward) continue;
    Box& box = held[task.stage];
    if (task.filters.count > box.channels.count) box = {task.filters, task.samples};
  }
  return held;
}

Box held_box(const Plan& plan, const TaskGraph& graph, std::size_t stage, int node) {
  return held_boxes(plan, graph, node)[stage];
}

FilterRange held_filters(const Plan& plan, const TaskGraph& graph, std::size_t stage, int node) {
  return held_box(plan, graph, stage, node).channels;
}

bool concerns_weights(const Task& sent) {
  return sent.cargo == Cargo::weights || sent.cargo == Cargo::filter_part || sent.cargo == Cargo::filter_sum;
}

bool passes_on(const Task& task, const TaskGraph& graph) {
  if (task.kind != TaskKind::send || !concerns_weights(task) || task.after.size() != 1) return false;
  const Task& before = graph.tasks[task.after[0]];
  return before.kind == TaskKind::send && before.of_update == task.of_update;
}

Lane lane_of(const Task& sent, const TaskGraph& graph) {
  return concerns_weights(sent) && sent.node != graph.master && sent.to != graph.master ? Lane::bulk : Lane::prompt;
}

std::set<std::pair<int, Lane>> slaves_sent_to(const Plan& plan, const std::vector<Stage>& trunk, int slave) {
  std::set<std::pair<int, Lane>> targets;
  for (const bool training : {true, false}) {
    const TaskGraph graph = make_task_graph(plan, trunk, training);
    for (const Task& each : graph.tasks) {
      if (each.kind != TaskKind::send || each.node != slave || each.to == graph.master) continue;
      targets.emplace(each.to, lane_of(each, graph));
    }
  }
  return targets;
}

bool updates(const TaskGraph& graph, int node) {
  return std::ranges::any_of(graph.tasks,
                             [node](const Task& task) { return task.kind == TaskKind::update && task.node == node; });
}

bool is_in(const Task& task, const StepWork& work) {
  return task.of_update ? work.update.has_value() : work.pass.has_value();
}

bool needs_credit(const Task& task, const TaskGraph& graph, const Plan& plan) {
  return task.kind == TaskKind::send && task.cargo == Cargo::part && task.to == graph.master &&
         traits_of(plan.exchange).master_sums;
}

bool concerns_statistics(const Task& task) {
  return task.kind == TaskKind::statistics || task.kind == TaskKind::join_statistics ||
         task.kind == TaskKind::take_statistics;
}

bool carries_statistics(const Task& sent) {
  return sent.kind == TaskKind::send && (sent.cargo == Cargo::moments || sent.cargo == Cargo::slopes ||
                                         sent.cargo == Cargo::joint_moments || sent.cargo == Cargo::joint_slopes);
}

bool carries_images(const Task& sent) {
  return sent.kind == TaskKind::send && sent.cargo == Cargo::maps && sent.stage == Source::kImages;
}

NumberType wire_type(const Task& sent, const Plan& plan) {
  if (sent.cargo == Cargo::weights || carries_statistics(sent)) return NumberType::fp32;
  // Sums are not rounded at random: all holders must decode what their owner does.
  if (plan.wire == NumberType::int8 && sent.cargo == Cargo::filter_sum) return NumberType::fp32;
  const bool maps = sent.cargo == Cargo::maps || sent.cargo == Cargo::raw_maps;
  return plan.wire == NumberType::int8 && maps ? NumberType::bf16 : plan.wire;
}

std::size_t values_of(const Task& sent, const std::vector<Stage>& trunk) {
  if (carries_statistics(sent)) return 2 * static_cast<std::size_t>(sent.filters.count);
  const auto s = static_cast<std::size_t>(sent.stage);
  if (concerns_weights(sent)) {
    std::size_t values = 0;
    for (const ParameterSpec& each : parameters_of(trunk[s], sent.filters.count)) {
      if (each.trained || sent.cargo == Cargo::weights) values += each.shape.size();
    }
    return values;
  }
  const int samples = sent.samples.count;
  if (sent.cargo == Cargo::raw_maps || sent.cargo == Cargo::raw_gradient) {
    return conv_shape(trunk[s], samples, sent.filters.count).size();
  }
  return maps_shape(trunk, sent.stage, samples, sent.filters.count).size();
}

double bytes_of(const Task& task, const Plan& plan, const std::vector<Stage>& trunk) {
  if (task.kind != TaskKind::send) return 0.0;
  const std::size_t values = values_of(task, trunk);
  return static_cast<double>(carries_images(task) ? values : bytes_of(wire_type(task, plan), values));
}

std::vector<Traffic> traffic_of(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                                const StepWork& work) {
  std::vector<Traffic> traffic(static_cast<std::size_t>(graph.nodes));
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::send || !is_in(task, work)) continue;
    const double bytes = bytes_of(task, plan, trunk);
    traffic[task.node].sent += bytes;
    traffic[task.to].received += bytes;
  }
  return traffic;
}

}  // namespace convoy
