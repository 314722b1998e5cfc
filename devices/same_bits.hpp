// Checks whether a device updates weights exactly as defined, so that its member may update weights by itself.
#pragma once

#include "kernels/device.hpp"

namespace convoy {

/// Returns whether the device updates a few hundred weights to the bits of update_values() (core/shard_state.hpp), by
/// each rule: denormals, huge and tiny values, and values whose products and sums lie next to a tie. It compiles a
/// small stage for this. For a device whose driver does not promise correct rounding, it returns false without a
/// test; for a paced device, which updates nothing, it returns true. Throws DeviceLost.
bool updates_to_same_bits(Device& device);

}  // namespace convoy
