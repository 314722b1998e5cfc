// A shard of a grouped convolution, composed of parts that a device can compute: runs of whole groups, and for
// incomplete groups the filters that the shard has.
#pragma once

#include "kernels/device.hpp"

namespace convoy {

/// Returns the number of groups of which the shard has filters.
int groups_in(const ShardSpec& spec);

/// The largest number of groups that GPUs compute one by one with their fast kernels; with more groups the calls would
/// cost more than the work.
inline constexpr int kMostParts = 8;

/// Compiles a shard whose parts `device` computes, each as a whole stage of its own. With `groups_together` a run of
/// whole groups is one part that is a grouped convolution itself; otherwise every part has a single group. `device`
/// must outlive the shard.
std::unique_ptr<Shard> compile_in_parts(Device& device, const ShardSpec& spec, bool groups_together);

}  // namespace convoy
