// Where this machine computes the heads of a net.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "kernels/device.hpp"
#include "master/commands/options.hpp"
#include "model/heads.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Returns the pace of the heads where this machine's `device` is paced; nothing where they are to be computed.
std::optional<HeadPace> pace_of_heads(const Cut& cut, int batch, const Device& device);

/// Returns where the heads of batches of `batch` images are computed. By default `device` computes their dense layers
/// if it has memory of its own, as graphics cards do, whose products are many times as fast as those of the host; and
/// the host does otherwise. This depends on nothing that changes from run to run. options.heads decides otherwise.
/// Throws Error where a paced device is to compute them. `device` must outlive the place; `notice` gets sentences for
/// people.
HeadPlace place_of_heads(const NetOptions& options, const Cut& cut, int batch, Device& device,
                         std::function<void(const std::string&)> notice = {});

/// Returns the bytes that the dense layers take on a device, as shard_bytes() in plan/profile.hpp counts.
std::size_t head_bytes(const Cut& cut, int batch);

}  // namespace convoy
