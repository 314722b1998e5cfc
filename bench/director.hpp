// What convoy-master does in a training with replicas, timed on this machine for the simulation of the training.
#pragma once

#include <string>

#include "nets/graph/net.hpp"
#include "plan/calibration.hpp"
#include "plan/plan.hpp"
#include "plan/replica_simulation.hpp"

namespace convoy {

/// Returns the plan of the first replica of a run, from its folder. Throws Error unless the replica is one slave.
Plan plan_of_replica(const std::string& folder, const Cut& parts);

/// Returns the traffic of a replica's plan, with the stages' weights in the number type in which they travel, the heads
/// as they were timed in a run, and the master's own work on gradients and weights, which this machine does a few times
/// to time it.
estimate::Director director_of(const Net& net, const Cut& parts, const Plan& plan, const Calibration& timed);

/// Bytes in transit of a trunk that trains by itself.
struct ModelBytes {
  double values = 0.0;  ///< weights and running averages
  double moments = 0.0;
};

/// Returns the bytes of a replica that trains by itself: in bf16 if the maps travel in bf16, and else in fp32.
ModelBytes bytes_of_model(const Cut& parts, const Plan& plan);

}  // namespace convoy
