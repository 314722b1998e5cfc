// Times of computing that this machine has measured before, kept on disk, so that a known net is not timed again.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/disk_cache.hpp"
#include "devices/calibrate.hpp"

namespace convoy {

/// What is measured on one device. Each value is kept beside the device's speed at the time, by a quick probe. It is
/// known only as long as the fastest of a few probes says about the same: on a processor that is shared, throttled or
/// otherwise another than before, everything is measured again.
class KnownTimes {
 public:
  using Seconds = std::vector<double>;

  /// `device` names the device and everything that may change its speed, such as its library's release. `speed` probes
  /// it, in any unit. With an empty `folder`, nothing is kept and nothing is probed.
  KnownTimes(std::string device, std::filesystem::path folder, std::function<double()> speed);

  /// Returns the seconds of the `parts` parts of `work`: those of before where they are known, otherwise those that
  /// measure() returns, which are then kept.
  Seconds of(const std::string& work, std::size_t parts, const std::function<Seconds()>& measure);

 private:
  void probe();

  std::string device_;
  bool keeps_;
  DiskCache cache_;
  std::function<double()> probe_;
  int probes_ = 0;
  double speed_ = 0.0;  ///< the fastest of all probes of this object
};

/// What is known of a device that must outlive the result. Nothing is kept where the device is paced, or time is
/// simulated.
KnownTimes known_times(Device& device, const std::filesystem::path& folder);

/// Returns the times of time_shard(), those of before where they are known.
Timing time_shard(KnownTimes& known, Device& device, const ShardSpec& spec, int repeats);

/// Describes everything of a stage on which its time depends: stages of equal descriptions do the same work. Names and
/// sources are not among them.
std::string describe_work(const Stage& stage);

}  // namespace convoy
