// What was measured of the members of a plan: the times of shards on each device, links, and what a host does beside
// computing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// Seconds of one batch's passes, and of the update, for a shard of `filters` filters.
struct Timing {
  int filters = 0;
  double forward = 0.0;
  double backward_input = 0.0;
  double backward_filters = 0.0;
  double update = 0.0;
  double forward_call =
      0.0;  ///< of forward, what it takes for any number of images: each further micro-batch costs it again
  double input_call = 0.0;  ///< of backward_input
  double seconds() const { return forward + backward_input + backward_filters + update; }
  /// Where forward and backward_input take the batch in so many parts.
  Timing in_parts(int micro_batches) const;
  /// On a machine that takes so many times as long.
  Timing times(double factor) const;
};

/// A machine's network card, in bytes per second each way. Whatever lies between two cards is as fast as they are (a
/// switch).
struct NodeLink {
  double out = 0.0;
  double in = 0.0;
};

/// What a machine's processor does beside computing on its device.
struct HostSpeed {
  double busy_per_byte = 0.0;  ///< seconds of computing that a byte costs which it sends or receives
  double memory = 8e9;         ///< bytes a second that additions read and write
};

/// What one member measured and can hold.
struct MemberProfile {
  std::string name;
  std::size_t memory = 0;                   ///< bytes for shards; 0 for no bound
  int filter_block = 1;                     ///< filters that its device computes together
  std::vector<std::vector<Timing>> stages;  ///< for each stage, ascending filters; none: it cannot hold any
  NodeLink link;                            ///< zeros: not measured
  double latency = 0.0;                     ///< seconds from its sending to another's receiving
  HostSpeed host;
};

/// Seconds that the dense layers and the losses take.
struct HeadTimes {
  double fixed = 0.0;  ///< forward and back to the gradient by the maps, for any number of images: reading the weights
  double per_image = 0.0;  ///< and for each
  double update = 0.0;     ///< the gradients by the weights and their update, of a batch

  double pass(int images) const { return fixed + per_image * images; }
};

/// What the master does beside what it may do as a member.
struct MasterProfile {
  HeadTimes head;
  HostSpeed host;
  NodeLink card;  ///< to all slaves, and from all, at once, until the last has all; zeros: not measured
};

/// Seconds predicted for a shard of stage `stage`: 0 for no filters, else piecewise linear through the timings at the
/// next multiple of filter_block (cost is not linear in the filter count); outside the timings along the nearest
/// segment; never below the cost of a smaller shard; infinite where there are no timings.
double predict_seconds(const MemberProfile& member, std::size_t stage, int filters);
/// The same, divided over the passes as in the timing of the next larger shard.
Timing predict_passes(const MemberProfile& member, std::size_t stage, int filters);

/// Bytes that a shard takes on a device: weights, gradients and velocities, input, its gradient, and all maps of the
/// batch that forward keeps for backward.
std::size_t shard_bytes(const Stage& stage, int filters, int batch, bool input_gradient);

}  // namespace convoy
