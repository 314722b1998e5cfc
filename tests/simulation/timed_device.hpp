// A device whose work takes simulated time.
#pragma once

#include <memory>

#include "core/random.hpp"
#include "kernels/device.hpp"
#include "tests/simulation/scheduler.hpp"

namespace convoy::simulation {

/// How long a device takes.
struct Pace {
  Time call{};    ///< a pass of a shard
  Time filter{};  ///< for each filter more
};

/// Computes on `device`; each pass takes its pace, by up to a half more or less, of the actor's time.
std::unique_ptr<Device> timed_device(std::unique_ptr<Device> device, Actor& actor, const Pace& pace, Random random);

}  // namespace convoy::simulation
