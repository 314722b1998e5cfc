// The work of a step of the trunk.
#pragma once

#include <optional>
#include <vector>

#include "core/images.hpp"
#include "core/shard_state.hpp"

namespace convoy {

/// The work of a step of the trunk: the update by the gradients of the step before, then a pass. One of them may be
/// absent. Only a training pass may follow an update.
struct StepWork {
  std::optional<UpdateStep> update = {};
  std::optional<Pass> pass = {};
  std::vector<ChannelScale> scales = {};  ///< of the images of the pass, one for each channel
  bool trains() const { return pass && pass->training; }
};

}  // namespace convoy
