// A shard on an OpenCL device.
#pragma once

#include "cl/layers.hpp"

namespace convoy {

std::unique_ptr<Shard> make_cl_shard(ClShared& shared, const ShardSpec& spec);

}  // namespace convoy
