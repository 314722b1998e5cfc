// How long a step of a plan would take on machines that are described: a discrete-event model with contention on links.
#pragma once

#include <functional>
#include <vector>

#include "plan/profile.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// Seconds of a node's computing that a byte costs it which it sends, and which it receives.
struct ByteCost {
  double out = 0.0;
  double in = 0.0;
};

struct ClusterModel {
  std::vector<NodeLink> links;       ///< by node of the graph
  double latency = 0.0;              ///< seconds from the end of a send to what waits for it
  std::vector<ByteCost> byte_costs;  ///< by node
  /// Seconds that a node computes on a task that is no send.
  std::function<double(const Task&)> compute;
};

/// Seconds that a sum, or the layers after a convolution, take: what they read and write, over `bandwidth` in bytes a second.
double memory_seconds(const Task& task, const Plan& plan, const std::vector<Stage>& trunk, double bandwidth);

/// What a node did in a step.
struct NodeUse {
  double compute = 0.0;    ///< seconds
  double bytes_out = 0.0;  ///< sent
  double bytes_in = 0.0;   ///< received
};

struct Simulated {
  double seconds = 0.0;  ///< of the step
  std::vector<NodeUse> nodes;
};

/// Each node computes one task at a time, the first of those that are ready. Sends of one pair of nodes go one after
/// another; those of different pairs share cards fairly: no send can be faster without one that is slower becoming
/// slower still (max-min fairness, which TCP on a switched LAN comes near). A node computes slower while it sends and
/// receives.
Simulated simulate(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                   const ClusterModel& cluster);

}  // namespace convoy
