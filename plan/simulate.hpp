// Simulation of the steps of a plan on described machines: a discrete-event model with contention on the links.
#pragma once

#include <functional>
#include <vector>

#include "plan/profile.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// Seconds of a node's computing that each sent byte, and each received byte, costs.
struct ByteCost {
  double out = 0.0;
  double in = 0.0;
};

/// The machines of a simulation.
struct ClusterModel {
  std::vector<NodeLink> links;       ///< by node of the graph
  double latency = 0.0;              ///< seconds between the end of a send and its arrival
  std::vector<ByteCost> byte_costs;  ///< by node
  /// Returns the seconds that a node computes on a task other than a send.
  std::function<double(const Task&)> compute;
  /// Returns the seconds in which a task copies maps; unset where no task does.
  std::function<double(const Task&)> copy = {};
  /// Returns the seconds of a task other than a send.
  double seconds(const Task& task) const { return compute(task) + (copy ? copy(task) : 0.0); }
};

/// Returns the seconds of a sum, or of the layers after a convolution: the bytes they read and write over `bandwidth`,
/// in bytes per second.
double memory_seconds(const Task& task, const std::vector<Stage>& trunk, double bandwidth);

/// A node's work in a step.
struct NodeUse {
  double compute = 0.0;    ///< seconds at full speed
  double bytes_out = 0.0;  ///< sent
  double bytes_in = 0.0;   ///< received
  double busy = 0.0;       ///< seconds in which it computes; longer than `compute` where bytes slow it down
  double moving = 0.0;     ///< seconds in which its link moves bytes and it computes nothing
};

/// The result of a simulation.
struct Simulated {
  double seconds = 0.0;  ///< from the end of one step to the end of the next
  double first = 0.0;    ///< from the beginning of the first step to its end
  std::vector<NodeUse> nodes;
};

/// Simulates two steps, of which the second begins at each node when the node has finished the first. The time between
/// their ends is the duration of every further step. Each node computes one task at a time, the first ready task in the
/// order of the graph. Sends between the same pair of nodes in the same lane follow one another; other sends share the
/// cards with max-min fairness (no send can become faster unless a slower one becomes slower still), which TCP on a
/// switched LAN approximates. A node computes more slowly while it sends and receives.
Simulated simulate(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                   const ClusterModel& cluster);

/// Returns the least that a step can take: the seconds of the busiest processor or card, in which nodes compute without
/// being slowed down and all transfers happen meanwhile. Takes a small part of the time of a simulation.
Simulated least_step(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                     const ClusterModel& cluster);

}  // namespace convoy
