// The memory that a node of a plan takes: for its shards on its device, and on the host for maps and gradients that it
// sends, receives, joins or adds up, for gradients of weights, and for values on their way.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "plan/residence.hpp"

namespace convoy {

/// The parts of maps and gradients that a node keeps on the host, by stage.
struct HostBoxes {
  std::map<int, Box> maps;  ///< with Source::kImages, the images
  std::map<int, Box> gradients;
  std::map<int, Box> parts;         ///< of a gradient with respect to a stage's maps: the node's own addend
  std::map<int, int> first_reader;  ///< the reading stage that overwrites the part; other readers add to it
};

/// Finds them from the graph of a training step of the plan, and find_residence() of the node.
HostBoxes host_boxes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training,
                     const Residence& residence, int node);

/// Returns the bytes of a node's shards (shard_bytes). `training` is the graph of a training step of the plan.
std::size_t shards_bytes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int node);

/// Returns the bytes that a node takes on the host in training, of whose step `training` is the graph: its HostBoxes, its
/// own gradients of weights and their sums where members share samples, a snapshot of the filters that it owns, and what
/// it sends and receives at the same time: of all stages weights, and either gradients of weights or their sums; of one
/// stage maps and their gradients, since the next stage waits for them.
std::size_t host_bytes(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int node);

/// Returns how much of MemberProfile::memory a plan takes of a member with this `memory_factor`.
std::size_t memory_taken(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& training, int member,
                         double memory_factor);

}  // namespace convoy
