// Which nodes compute which parts of each stage in a step, and which parts of other stages' maps they need for it.
#pragma once

#include <map>
#include <vector>

#include "plan/plan.hpp"

namespace convoy {

/// A node that computes a part of a stage: filters, and samples of each micro-batch.
struct Computing {
  int node = 0;
  Box box;
};

/// Boxes by node.
using Boxes = std::map<int, Box>;

/// The needs of all nodes in a step. A stage's index stands for its maps, Source::kImages for the images.
struct Needs {
  std::vector<std::vector<Computing>> forward;   ///< by stage
  std::vector<std::vector<Computing>> backward;  ///< by stage
  std::map<int, Boxes> read;                     ///< the part of each stage's maps that a node reads
  std::map<int, Boxes> parts;                    ///< the part of each stage's maps for which a node computes a gradient
  std::map<int, std::vector<int>> users;         ///< nodes that read each stage's maps
  std::map<int, int> first_reader;               ///< of each stage's maps; in the backward pass it is the last
};

/// Returns the maps that a stage reads.
std::vector<int> values_read(const std::vector<Stage>& trunk, int stage);

/// Returns the needs of the nodes where the node `master` needs the maps of the stages `outputs`.
Needs find_needs(const Plan& plan, const std::vector<Stage>& trunk, const std::vector<int>& outputs, int master);

}  // namespace convoy
