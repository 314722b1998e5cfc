// Looks whether a device keeps to the definition of an update, so that a member may update weights by itself.
#pragma once

#include "kernels/device.hpp"

namespace convoy {

/// Returns whether the device updates a few hundred weights to the bits of update_values() (core/shard_state.hpp), by each
/// rule: denormals, huge and tiny values, and values whose products and sums lie next to a tie. It compiles a small stage
/// for that. A device whose driver does not promise correct rounding is not asked. A paced device updates nothing, and
/// counts as one that keeps to it. Throws DeviceLost.
bool updates_to_same_bits(Device& device);

}  // namespace convoy
