// A shard of a device that the host computes for it: for stages that are too rare, or too cheap, for the device to have
// kernels of its own for.
#pragma once

#include "kernels/device.hpp"

namespace convoy {

/// Takes and gives tensors of `device`, and computes between on the host. `device` must outlive the shard.
std::unique_ptr<Shard> compile_on_host(Device& device, const ShardSpec& spec, int threads);

}  // namespace convoy
