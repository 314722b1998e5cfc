// Which maps and gradients pass from shard to shard of a node on its device, in the device's layout, so that they need
// not be converted for the host.
#pragma once

#include <vector>

#include "plan/task_graph.hpp"

namespace convoy {

/// What a node keeps on its device. A shard hands its maps to another shard there if it has computed all channels of
/// the samples that the other shard reads.
struct Residence {
  /// By stage and input of reads_of(): whether the node's own shards make all maps that the input consists of.
  std::vector<std::vector<bool>> inputs;
  /// By stage: whether its maps are needed on the host as well, to be sent or joined with maps that others computed.
  std::vector<bool> leaves;
  /// By stage: whether the node's own shards alone add to the gradient with respect to its maps.
  std::vector<bool> gradients;
  /// By stage for which `gradients` is set: the stage whose input gradient is this gradient as it stands; -1 where
  /// several are added, or channels differ.
  std::vector<int> sole_reader;
  /// By stage: whether the gradient that the heads find with respect to its maps is needed by the master's own shard
  /// alone.
  std::vector<bool> from_heads;

  /// Whether the shards of another stage read the input gradient of the stage's shard after other shards have computed.
  bool keeps_input_gradient(int stage) const;
};

/// Finds what node `node` keeps on its device, where it runs the tasks of all of `graphs`, of which the first is that
/// of a training step.
Residence find_residence(const Plan& plan, const std::vector<Stage>& trunk, const std::vector<const TaskGraph*>& graphs,
                         int node);

}  // namespace convoy
