// A device for measurements: it computes nothing, and takes the time that a profile says for each pass of a shard. With
// it the real protocol and the real traffic of a cluster run on one small machine, at the speed of the machines
// described.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "devices/pacer.hpp"
#include "kernels/device.hpp"
#include "plan/calibration.hpp"
#include "plan/profile.hpp"

namespace convoy {

/// Returns whether `name` names a paced device: "paced:240" or "paced:calibration.json".
bool is_paced(std::string_view name);
/// Throws Error where `name` names a paced device; `purpose` is what the user wants of the device, such as "test".
void expect_computing(const std::string& name, const std::string& purpose);

/// The times of a paced device. Of a machine that is described by its speed they are those of timing_at(); of a member
/// of a run's calibration they are those that the planner predicts from the same timings.
class PaceProfile {
 public:
  /// `text` follows "paced:" in a device's name: a speed in GFLOP/s, or a file of a calibration with "#MEMBER" where it
  /// is not its first member. Throws Error.
  explicit PaceProfile(const std::string& text);

  /// Returns whether the machine has times for a stage of this name.
  bool knows(const std::string& stage) const;
  /// Returns the seconds of the passes of a whole shard in one micro-batch, and of its update. Throws Error where the
  /// calibration has no timings of the stage.
  Timing passes(const ShardSpec& spec) const;
  /// Returns the times of heads that need `flops` floating-point operations for each image and pass, for batches of
  /// `batch` images.
  HeadTimes heads(double flops, int batch) const;
  /// The number of filters that the machine computes together.
  int filter_block() const { return member_ ? member_->filter_block : 1; }
  /// The machine in words.
  const std::string& description() const { return description_; }

 private:
  std::string description_;
  double gflops_ = 0.0;  ///< without a calibration
  Calibration calibration_;
  std::optional<MemberProfile> member_;
};

/// The device's maps and gradients are zeros, its weights are those of zero_state(), and the variances of its batch
/// norms are ones, so all values are finite. The device keeps no values. The times of passes contain those of copies
/// from and to the host, so a copy takes no time.
class PacedDevice final : public Device {
 public:
  /// The device named "paced:`profile`", which calls `spend` for the seconds of each pass; by default it lets them
  /// pass.
  explicit PacedDevice(const std::string& profile, Spend spend = {});

  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override;
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override;

  const PaceProfile& profile() const { return profile_; }
  /// The function that lets seconds pass. The heads on this machine share it.
  const Spend& spend() const { return spend_; }

 private:
  PaceProfile profile_;
  Spend spend_;
  DeviceInfo info_;
};

/// Returns the device as a paced one; null where it computes.
inline const PacedDevice* as_paced(const Device& device) { return dynamic_cast<const PacedDevice*>(&device); }

}  // namespace convoy
