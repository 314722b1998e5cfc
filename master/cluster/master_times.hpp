// Timings of the master's own machine: the heads, and a step of a run without slaves.
#pragma once

#include <cstddef>
#include <optional>

#include "devices/known_times.hpp"
#include "kernels/device.hpp"
#include "model/heads.hpp"
#include "nets/graph/net.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// Times all heads on batches of `batch` images, computed by `threads` threads (0: all cores). Where this machine's `device`
/// is paced, its profile has the times. `times` has what is known of the device, and gets what is measured.
HeadTimes time_heads(const Cut& cut, int batch, int threads, const Device& device, KnownTimes& times);

/// Returns the pace of the heads where this machine's `device` is paced; nothing where they are to be computed.
std::optional<HeadPace> pace_of_heads(const Cut& cut, int batch, const Device& device);

/// Returns the seconds of a step on this machine alone: the trunk on `device`, which has `memory` bytes (0: unlimited),
/// and the heads, which were timed at `head`. Returns 0 where the memory is too small. `times` is as above.
double time_alone(const Cut& cut, int batch, Device& device, KnownTimes& times, std::size_t memory,
                  const HeadTimes& head);

}  // namespace convoy
