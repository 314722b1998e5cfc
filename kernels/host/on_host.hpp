// A shard that the host computes on behalf of a device, for stages that are too rare or too cheap to deserve kernels of
// the device's own.
#pragma once

#include "kernels/device.hpp"

namespace convoy {

/// Compiles a shard that takes and returns tensors of `device` and computes on the host. `device` must outlive the
/// shard.
std::unique_ptr<Shard> compile_on_host(Device& device, const ShardSpec& spec, int threads);

}  // namespace convoy
