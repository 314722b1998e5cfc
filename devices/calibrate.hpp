// Timing a device on the stages it may get.
#pragma once

#include <vector>

#include "kernels/device.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// Filter counts at which a stage is timed: cost is not linear in the filter count, so a small, a middle and the whole.
std::vector<int> calibration_filters(const Stage& stage);

/// Samples per pass while timing: enough to be representative of `batch`, few enough to be quick.
int calibration_batch(int batch);

/// Median seconds of each pass of a shard and of its update (zero weights: dense arithmetic takes the same time), with what
/// a node of a plan does beside it: values come from the host and go back there. Over `repeats` rounds after one to warm
/// up. Stops early: with three rounds once two seconds are spent, with one after six.
Timing time_shard(Device& device, const ShardSpec& spec, int repeats);

/// How this machine's processor does beside the device, in some 50 ms.
struct HostTimes {
  double memory = 0.0;    ///< bytes a second that additions read and write
  double slowdown = 1.0;  ///< seconds that pass for each second that a thread computes: others take their part of it
  bool spare = false;     ///< has cores that the device does not compute on
};
HostTimes time_host(const DeviceInfo& device);
/// What `bytes` cost for which the processor worked so many seconds (process_seconds()).
HostSpeed host_speed(const HostTimes& times, double worked, double bytes);

/// GFLOP/s of forward and backward on a convolution of middle size (64 filters of 3x3 on 64 maps of 16x16), in a second
/// or two: to compare devices, not to plan with.
double measure_speed(Device& device);

}  // namespace convoy
