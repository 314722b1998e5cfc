// A shard of a convolution in groups, of parts that a device can compute: whole groups together, and of others the
// filters that the shard has.
#pragma once

#include "kernels/device.hpp"

namespace convoy {

/// Groups of which the shard has filters.
int groups_in(const ShardSpec& spec);

/// Groups that GPUs take one by one, with their fast kernels; of more, the calls would cost more than the work.
inline constexpr int kMostParts = 8;

/// `device` computes the parts, each a shard that is all of a stage of its own; with `groups_together` whole groups are
/// one part in groups again, otherwise parts have no groups. `device` must outlive the shard.
std::unique_ptr<Shard> compile_in_parts(Device& device, const ShardSpec& spec, bool groups_together);

}  // namespace convoy
