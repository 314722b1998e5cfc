// What a node has and does in the exchange of the source thesis (Exchange::thesis) and in no other: slaves compute
// convolutions alone, so their maps before the layers that follow, and the gradients by them, are tensors of their own; the
// master computes those layers, holds all weights, and sends them out.
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
  /// Node `index` of the plan's graph. Its weights, on the master, are those of zero_state().
  ThesisNode(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& graph, int index);

  /// The part of a stage that a shard computes: its convolution.
  static Stage compiled(Stage stage);

  /// Maps of a stage's convolution, before the layers after it, and the gradients by them: as many channels as the node
  /// holds filters.
  Slab& convolved(int stage) { return convolved_.at(stage); }
  Slab& convolved_gradient(int stage) { return convolved_gradients_.at(stage); }

  /// On the master: the layers after a stage's convolution, for all of the batch, from convolved() to `maps`.
  void layers(int stage, const Pass& pass, Slab& maps);
  /// The same backwards, from the gradient by the maps to convolved_gradient().
  void layers_backward(int stage, const Slab& gradient);

  /// Whether the node is the master, which holds the weights of all filters.
  bool holds_weights() const { return !weights_.empty(); }
  /// The state of all filters of a stage, on the master.
  ShardState& weights(std::size_t stage) { return weights_[stage]; }

 private:
  int batch_;
  std::map<int, Slab> convolved_;
  std::map<int, Slab> convolved_gradients_;
  std::vector<std::unique_ptr<ChannelLayers<float>>> layers_;  ///< on the master, by stage
  std::vector<ShardState> weights_;                            ///< on the master, by stage
};

}  // namespace convoy
