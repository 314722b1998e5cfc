// The gradients of weights of which several members of a plan hold copies: each holder's own, and the sums of all.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/shard_state.hpp"
#include "exchange/node_plan.hpp"
#include "exchange/parcel.hpp"

namespace convoy {

/// Copies parameters of filters `of`, as they travel, into `state`, the state of filters `range`. Filters outside
/// `range` are ignored.
void put_weights(FilterRange of, std::span<const float> values, FilterRange range, ShardState& state);

/// The gradients of stages for which NodePlan::joins_gradients() holds, in the form of Shard::gradients() for all
/// filters of the node's tile.
class WeightSums {
 public:
  /// All arguments must outlive the sums. `flights` has the values of sends that arrived.
  WeightSums(const NodePlan& plan, const TaskGraph& graph, Flights& flights)
      : plan_(plan), graph_(graph), flights_(flights) {}

  /// Takes the gradients of the node's own samples.
  void take_own(int stage, std::vector<Tensor> gradients) { own_[stage] = std::move(gradients); }
  /// Adds the gradients of the holders in the order of the rows, never in the order of arrival. The owner rounds the
  /// sum as it travels, so that it updates by the same sum as the other holders.
  void add_up(const Task& sum);
  /// Takes the sum of gradients that the owner of some filters sends, of which all values have arrived. A master that
  /// only passes it on has no tile.
  void take_sum(int sent);
  /// The sums, of filters that the node owns and of those whose sum their owner sends it.
  const std::vector<Tensor>& of(int stage) const { return sums_.at(stage); }
  /// The places of the gradients that a send task carries, of the node's samples or of all, parameter by parameter.
  std::vector<std::span<const float>> to_send(const Task& sent) const;

 private:
  std::vector<Tensor>& sums(int stage);
  FilterRange filters_of(const Task& sum, int part) const;
  void add_part(const Task& sum, int part, bool first);
  const Task& task(int index) const { return graph_.tasks[index]; }

  const NodePlan& plan_;
  const TaskGraph& graph_;  ///< of a training step
  Flights& flights_;
  std::map<int, std::vector<Tensor>> own_;   ///< by stage
  std::map<int, std::vector<Tensor>> sums_;  ///< by stage
};

}  // namespace convoy
