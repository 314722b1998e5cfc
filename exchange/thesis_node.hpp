// The part of a node that only the exchange of the source thesis needs (Exchange::thesis). In it slaves compute only
// convolutions, so the maps between a convolution and the layers after it, and their gradients, are separate tensors.
// The master computes the layers after each convolution, holds all weights, and sends them to the slaves.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/shard_state.hpp"
#include "exchange/slab.hpp"
#include "kernels/host/channel_layers.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

class ThesisNode {
 public:
  /// Makes the part of node `index` of the plan's graph. On the master, the weights begin as zero_state().
  ThesisNode(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& graph, int index);

  /// The stage that a shard compiles: the convolution without the layers after it.
  static Stage compiled(Stage stage);

  /// The maps of a stage's convolution, before the layers after it, and the gradients with respect to them. They have
  /// one channel for each filter that the node holds.
  Slab& convolved(int stage) { return convolved_.at(stage); }
  Slab& convolved_gradient(int stage) { return convolved_gradients_.at(stage); }

  /// On the master: computes the layers after a stage's convolution for the whole batch, from convolved() to `maps`.
  void layers(int stage, const Pass& pass, Slab& maps);
  /// On the master: the backward pass of layers(), from the gradient with respect to the maps to convolved_gradient().
  void layers_backward(int stage, const Slab& gradient);

  /// Whether the node is the master, which holds the weights of all filters.
  bool holds_weights() const { return !weights_.empty(); }
  /// The state of all filters of a stage, on the master.
  ShardState& weights(std::size_t stage) { return weights_[stage]; }

 private:
  int batch_;
  std::map<int, Slab> convolved_;
  std::map<int, Slab> convolved_gradients_;
  std::vector<std::unique_ptr<ChannelLayers<float>>> layers_;  ///< by stage, on the master only
  std::vector<ShardState> weights_;                            ///< by stage, on the master only
};

}  // namespace convoy
