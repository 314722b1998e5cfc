// Timings of the master's own machine: the heads, and a step of a run without slaves.
#pragma once

#include <cstddef>

#include "devices/known_times.hpp"
#include "kernels/device.hpp"
#include "model/heads.hpp"
#include "nets/graph/net.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// Times all heads on batches of `batch` images where they are to be computed; where they are paced, the pace has the
/// times. `times` has what is known of this machine's `device`, and gets what is measured.
HeadTimes time_heads(const Cut& cut, int batch, HeadPlace place, const Device& device, KnownTimes& times);

/// Returns the seconds of a step on this machine alone: the trunk on `device`, which has `memory` bytes (0: unlimited),
/// and the heads, which were timed at `head`. Returns 0 where the memory is too small. `times` is as above.
double time_alone(const Cut& cut, int batch, Device& device, KnownTimes& times, std::size_t memory,
                  const HeadTimes& head);

}  // namespace convoy
