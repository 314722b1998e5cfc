// Measurements of a plan's members: the times of shards on each device, links, and the costs of a host's other work.
#pragma once

#include <cstddef>
#include <optional>
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
  double forward_call = 0.0;  ///< part of `forward` that does not depend on the batch; each micro-batch costs it again
  double input_call = 0.0;    ///< the same part of `backward_input`
  double seconds() const { return forward + backward_input + backward_filters + update; }
  /// Returns the timing for forward and backward_input in `micro_batches` parts.
  Timing in_parts(int micro_batches) const;
  /// Returns the timing for a part of the samples. The weights' update and what does not depend on the batch stay.
  Timing for_samples(double share) const;
  /// Returns the timing of a machine that takes `factor` times as long.
  Timing times(double factor) const;
};

/// Returns the timing of a machine of `gflops` GFLOP/s: each pass takes its floating-point operations over that speed,
/// whatever its shape, and no update takes time. A stage without a convolution reads and writes its maps at `memory`
/// bytes per second.
Timing timing_at(double gflops, double memory, const Stage& stage, int filters, int batch, bool input_gradient);

/// The speed of a machine's network card, in bytes per second each way. A switch between two cards is assumed to be as
/// fast as they are.
struct NodeLink {
  double out = 0.0;
  double in = 0.0;
};

/// The cost of a host's work other than computing on its device.
struct HostSpeed {
  double busy_per_byte = 0.0;  ///< seconds of computing that each byte sent or received costs
  double memory = 8e9;         ///< bytes per second that additions read and write
};

/// The power of a machine, in W. It takes `compute` while it computes, whether or not its link moves bytes meanwhile.
struct Power {
  double idle = 0.0;      ///< while it is switched on and has nothing to do
  double compute = 0.0;   ///< at least `idle`
  double transfer = 0.0;  ///< while its link moves bytes, either way, and it computes nothing; at least `idle`
  bool operator==(const Power&) const = default;
};

/// Returns what is wrong with numbers that are to be a power, in words for people; an empty text if nothing is.
std::string fault_in(const Power& power);

/// One member's measurements and limits.
struct MemberProfile {
  std::string name;
  std::size_t memory = 0;  ///< bytes for shards; 0: unlimited
  /// Where `memory` is the host's, so that it must also hold host_bytes(): how many bytes of it a byte of `memory`
  /// stands for. 0 where the device has memory of its own.
  double memory_factor = 0.0;
  int filter_block = 1;   ///< filters that its device computes together
  bool same_bits = true;  ///< whether its device updates weights to the same bits as others (Plan::unequal)
  /// For each stage, in ascending order of filters; empty: the member cannot hold the stage.
  std::vector<std::vector<Timing>> stages;
  NodeLink link;         ///< zeros: not measured
  double latency = 0.0;  ///< seconds between sending a message and its receipt
  HostSpeed host;
  std::optional<Power> power;  ///< nothing where it is not known
};

/// Seconds of the dense layers and the losses.
struct HeadTimes {
  double fixed = 0.0;      ///< forward and backward to the gradient of the maps, independent of the number of images
  double per_image = 0.0;  ///< forward and backward for each image
  double update = 0.0;     ///< weight gradients and update, for a batch

  double pass(int images) const { return fixed + per_image * images; }
};

/// The master's work other than the work that it may do as a member.
struct MasterProfile {
  HeadTimes head;
  HostSpeed host;
  NodeLink card;  ///< to and from all slaves at once, until the last slave has finished; zeros: not measured
  std::optional<Power> power;  ///< of its machine where that is no member; nothing where it is not known
};

/// Returns the predicted seconds of a shard of stage `stage`: 0 for no filters, infinity where there are no timings.
/// The prediction is piecewise linear through the timings, taken at the next multiple of filter_block; outside the
/// timings it follows the nearest segment. It is never below the cost of a smaller shard.
double predict_seconds(const MemberProfile& member, std::size_t stage, int filters);
/// Returns the prediction of predict_seconds(), divided among the passes in the proportions of the next larger timing.
Timing predict_passes(const MemberProfile& member, std::size_t stage, int filters);

/// Returns the bytes that a shard takes on a device: weights, their gradients and velocities, the input and its
/// gradient, and all maps of the batch that forward keeps for backward. Devices keep filters in whole blocks of
/// `filter_block` (DeviceInfo), so that one filter may take as much as sixteen.
std::size_t shard_bytes(const Stage& stage, int filters, int batch, bool input_gradient, int filter_block = 1);

}  // namespace convoy
