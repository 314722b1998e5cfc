#include "plan/choose.hpp"

#include <algorithm>

namespace convoy {
namespace {

constexpr double kUnmeasured = 1e12;  // bytes per second; transfers then cost nothing

/// A received byte is copied to its place; a sent byte is written once for all receivers.
ByteCost byte_cost(const HostSpeed& host) { return {host.busy_per_byte, host.busy_per_byte + 2.0 / host.memory}; }

}  // namespace

ClusterModel measured_cluster(const Plan& plan, const std::vector<Stage>& trunk,
                              const std::vector<MemberProfile>& members, const MasterProfile& master) {
  const auto rate = [](double measured) { return measured > 0.0 ? measured : kUnmeasured; };
  const bool own = !plan.members.empty() && plan.members.back() == kMasterName;
  const std::size_t slaves = members.size() - (own ? 1 : 0);
  ClusterModel model;
  NodeLink card;  // where it was not measured, the master's card is as fast as the fastest slave's
  for (std::size_t m = 0; m < slaves; ++m) {
    model.links.push_back({rate(members[m].link.out), rate(members[m].link.in)});
    model.byte_costs.push_back(byte_cost(members[m].host));
    model.latency = std::max(model.latency, members[m].latency);
    card = {std::max(card.out, model.links[m].in), std::max(card.in, model.links[m].out)};
  }
  if (slaves == 0) card = {kUnmeasured, kUnmeasured};
  if (master.card.out > 0.0 && master.card.in > 0.0) card = master.card;
  model.links.push_back(card);
  model.byte_costs.push_back(byte_cost(own ? members.back().host : master.host));
  model.compute = [&plan, &trunk, &members, &master](const Task& task) {
    if (task.kind == TaskKind::head) return master.head.pass(plan.batch / plan.micro_batches);
    if (task.kind == TaskKind::head_update) return master.head.update;
    const auto node = static_cast<std::size_t>(task.node);
    const bool adds = task.kind == TaskKind::sum || task.kind == TaskKind::filter_sum;
    if (adds || task.kind == TaskKind::layers || task.kind == TaskKind::layers_backward) {
      return memory_seconds(task, trunk, node < members.size() ? members[node].host.memory : master.host.memory);
    }
    // The passes include the layers, and joining takes no time to speak of.
    if (task.kind == TaskKind::send || concerns_statistics(task)) return 0.0;
    const MemberProfile& member = members[node];
    if (task.kind == TaskKind::update) {
      // A device updates the whole shard, even where others own some of its filters.
      const auto stage = static_cast<std::size_t>(task.stage);
      return predict_passes(member, stage, tile_of(plan.stages[stage], task.node).filters.count).update;
    }
    const Timing passes = predict_passes(member, static_cast<std::size_t>(task.stage), task.filters.count)
                              .for_samples(static_cast<double>(task.samples.count) / micro_batch_size(plan))
                              .in_parts(plan.micro_batches);
    switch (task.kind) {
      case TaskKind::forward: return passes.forward / plan.micro_batches;
      case TaskKind::backward_input: return passes.backward_input / plan.micro_batches;
      default: return passes.backward_filters;
    }
  };
  return model;
}

}  // namespace convoy
