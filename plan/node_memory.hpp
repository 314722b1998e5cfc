// The memory that a node of a plan takes: for its shards on its device, and on the host for maps and gradients that it
// sends, receives, joins or adds up, for gradients of weights, and for values on their way.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "plan/profile.hpp"
#include "plan/residence.hpp"

namespace convoy {

/// The parts of maps and gradients that a node keeps on the host, by stage.
struct HostBoxes {
  std::map<int, Box> maps;  ///< with Source::kImages, the images
  std::map<int, Box> gradients;
  std::map<int, Box> parts;         ///< of a gradient with respect to a stage's maps: the node's own addend
  std::map<int, int> first_reader;  ///< the reading stage that overwrites the part; other readers add to it
};

/// Returns the boxes of a node. `training` is the graph of a training step of the plan, and `residence` is the node's
/// find_residence().
HostBoxes host_boxes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training,
                     const Residence& residence, int node);

/// Returns the bytes of a node's shards (shard_bytes) on a device with this `filter_block`. `training` is the graph of
/// a training step of the plan.
std::size_t shards_bytes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int node,
                         int filter_block = 1);

/// Returns the bytes that a node takes on the host in training. `training` is the graph of a training step of the plan.
/// The bytes are those of the node's HostBoxes, of a snapshot of its own filters, of its gradients of weights and their
/// sums where members share samples, and of values on their way. Weights of all stages may be on their way together,
/// and either all gradients of weights or all sums. Maps of one stage are on their way together with their gradients,
/// since the next stage waits for the maps.
std::size_t host_bytes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int node);

/// Returns how much of MemberProfile::memory a plan takes of the node `member`, whose profile is `of`.
std::size_t memory_taken(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int member,
                         const MemberProfile& of);

}  // namespace convoy
