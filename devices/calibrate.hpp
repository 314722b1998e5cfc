// Measures how fast a device computes stages, for the planner.
#pragma once

#include <vector>

#include "kernels/device.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// How thoroughly a net's stages are timed. Where there are many, the error of one weighs little, and nobody wants to
/// wait a minute for the first step.
struct TimingEffort {
  bool halves = true;  ///< whether a stage is also timed with half of its filters
  /// Whether a stage is timed with two numbers of images at each filter count, or with all filters alone.
  bool all_calls = true;
  int repeats = 5;  ///< timed rounds of each
};
/// Returns the effort for a net of `stages` stages of which no two do the same work.
TimingEffort timing_effort(std::size_t stages);

/// Returns the filter counts at which a stage is timed, in ascending order: 16, the half and the whole, because cost is
/// not linear in the number of filters; without halves a quarter and the whole, or the whole alone of a stage that
/// passes channels.
std::vector<int> calibration_filters(const Stage& stage, const TimingEffort& effort);

/// Returns the samples per pass while timing: enough to be representative of `batch`, few enough to be quick.
int calibration_batch(int batch);

/// Returns the median seconds of each pass of a shard and of its update, without copies from and to the host: whether a
/// node makes copies depends on the plan. The weights are zero; dense arithmetic takes the same time for all values.
/// One warm-up round precedes `repeats` timed rounds. The function stops after three rounds once two seconds have
/// passed, and after one round once six seconds have passed.
Timing time_shard(Device& device, const ShardSpec& spec, int repeats);

/// Measurements of this machine's processor, apart from the device. They take about 50 ms.
struct HostTimes {
  double memory = 0.0;  ///< bytes per second that additions read and write
  /// Elapsed time for each second of a thread's computing time; above 1 if other programs share the processor.
  double slowdown = 1.0;
  bool spare = false;  ///< whether the process may use cores on which the device does not compute
};
/// Measures this machine's processor, apart from `device`.
HostTimes time_host(const DeviceInfo& device);
/// Returns the cost per byte of a transfer of `bytes` bytes during which the processor worked `worked` seconds
/// (process_seconds()).
HostSpeed host_speed(const HostTimes& times, double worked, double bytes);

/// Returns the speed in GFLOP/s of forward and backward passes of a medium-sized convolution (64 filters of 3x3 on 64
/// maps of 16x16). It takes a second or two, and serves to compare devices, not to plan.
double measure_speed(Device& device);

}  // namespace convoy
