#include "exchange/node_plan.hpp"

#include "core/shard_state.hpp"

namespace convoy {

NodePlan::NodePlan(const Plan& whole, const std::vector<Stage>& stages, int node)
    : plan(whole),
      trunk(stages),
      index(node),
      thesis(!traits_of(plan.exchange).fused_stages),
      training(make_task_graph(plan, trunk, true)),
      testing(make_task_graph(plan, trunk, false)),
      needed(thesis ? std::vector<bool>(trunk.size(), true) : needed_gradients(trunk)),
      held(held_boxes(plan, training, index)),
      residence(find_residence(plan, trunk, {&training, &testing}, index)) {
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    joins.push_back(has_several_rows(plan.stages[s]) && has_trained_parameters(trunk[s]));
  }
}

bool NodePlan::finds_gradients(const Task& task) const {
  if (task.node != index) return false;
  return task.kind == TaskKind::filter_sum || (task.kind == TaskKind::backward_filters && !joins_gradients(task.stage));
}

}  // namespace convoy
