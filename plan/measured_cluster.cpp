#include "plan/choose.hpp"

#include <algorithm>

#include "plan/residence.hpp"

namespace convoy {
namespace {

constexpr double kUnmeasured = 1e12;  // bytes per second; transfers then cost nothing

/// A received byte is copied to its place; a sent byte is written once for all receivers.
ByteCost byte_cost(const HostSpeed& host) { return {host.busy_per_byte, host.busy_per_byte + 2.0 / host.memory}; }

/// The copies of maps in the passes of a plan's stages: between host and device, and on the device.
class Copies {
 public:
  Copies(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& graph) : trunk_(trunk) {
    for (int node = 0; node < graph.nodes; ++node) residences_.push_back(find_residence(plan, trunk, {&graph}, node));
  }

  /// Whether the task is a sum of gradients that stays on the device, where the readers' tasks add it up.
  bool stays(const Task& task) const { return task.kind == TaskKind::sum && residence(task).gradients[task.stage]; }

  /// Returns the bytes that the copies of a task read and write.
  double bytes(const Task& task) const {
    const bool forward = task.kind == TaskKind::forward;
    if (!forward && task.kind != TaskKind::backward_input) return 0.0;
    const Residence& here = residence(task);
    const auto s = static_cast<std::size_t>(task.stage);
    const bool result = forward ? here.leaves[s] : !here.gradients[s];
    double values = result ? values_of(task.stage, task.samples.count, task.filters.count) : 0.0;
    const std::vector<Sources> sources = reads_of(trunk_, s);
    for (const Read& read : reads_for(trunk_, s, task.filters)) {
      if (read.stage == Source::kZeros || (!forward && read.stage < 0)) continue;
      // What stays is copied on the device where it is joined with other maps, or added to other gradients.
      const bool passes =
          forward ? here.inputs[s][read.number] && sources[read.number].size() == 1 : here.sole_reader[read.stage] >= 0;
      if (!passes) values += values_of(read.stage, task.samples.count, read.channels.count);
    }
    return 2.0 * sizeof(float) * values;
  }

 private:
  const Residence& residence(const Task& task) const { return residences_[task.node]; }
  double values_of(int stage, int samples, int channels) const {
    return static_cast<double>(maps_shape(trunk_, stage, samples, channels).size());
  }

  const std::vector<Stage>& trunk_;
  std::vector<Residence> residences_;  ///< by node
};

}  // namespace

ClusterModel measured_cluster(const Plan& plan, const std::vector<Stage>& trunk,
                              const std::vector<MemberProfile>& members, const MasterProfile& master,
                              const TaskGraph* graph) {
  const auto rate = [](double measured) { return measured > 0.0 ? measured : kUnmeasured; };
  const bool own = has_master(plan);
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
  std::shared_ptr<const Copies> copies;
  if (graph != nullptr) copies = std::make_shared<const Copies>(plan, trunk, *graph);
  const auto memory = [&members, &master](int node) {
    const auto index = static_cast<std::size_t>(node);
    return index < members.size() ? members[index].host.memory : master.host.memory;
  };
  if (graph != nullptr) {
    model.copy = [copies, memory](const Task& task) { return copies->bytes(task) / memory(task.node); };
  }
  model.compute = [&plan, &trunk, &members, &master, copies, memory](const Task& task) {
    if (task.kind == TaskKind::head) return master.head.pass(plan.batch / plan.micro_batches);
    if (task.kind == TaskKind::head_update) return master.head.update;
    const auto node = static_cast<std::size_t>(task.node);
    const bool adds = task.kind == TaskKind::sum || task.kind == TaskKind::filter_sum;
    if (adds || task.kind == TaskKind::layers || task.kind == TaskKind::layers_backward) {
      return copies != nullptr && copies->stays(task) ? 0.0 : memory_seconds(task, trunk, memory(task.node));
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
