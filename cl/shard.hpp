// A shard on an OpenCL device.
#pragma once

#include "cl/layers.hpp"

namespace convoy {

/// Compiles a shard. Throws Error where the device cannot hold or compute it.
std::unique_ptr<Shard> make_cl_shard(ClShared& shared, const ShardSpec& spec);

}  // namespace convoy
