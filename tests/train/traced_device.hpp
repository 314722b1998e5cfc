// A device that counts how often values move between it and the host, for tests of who keeps them.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "devices/registry.hpp"
#include "tests/support/lying_device.hpp"

namespace convoy {

/// How often values move between host and device, and what the device cannot hold.
struct Traced {
  int compiled = 0;
  int read = 0;
  int written = 0;
  int gradients = 0;
  std::string no_room_for;  ///< name of a layer
  bool lost = false;
};

inline constexpr Lie kNoLie{.from_step = std::numeric_limits<int>::max()};

class TracedShard : public LyingShard {
 public:
  TracedShard(std::unique_ptr<Shard> shard, Device& device, Traced& traced)
      : LyingShard(std::move(shard), device, kNoLie), traced_(traced) {}
  ShardState state() const override {
    ++traced_.read;
    return LyingShard::state();
  }
  void set_state(const ShardState& state) override {
    ++traced_.written;
    LyingShard::set_state(state);
  }
  std::vector<Tensor> gradients() const override {
    ++traced_.gradients;
    return LyingShard::gradients();
  }

 private:
  Traced& traced_;
};

class TracedDevice : public Device {
 public:
  explicit TracedDevice(const std::string& name = "reference") : device_(make_device(name, {.threads = 1})) {}
  const DeviceInfo& info() const override { return device_->info(); }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    if (traced.lost) throw DeviceLost("the device is lost");
    if (spec.stage.name == traced.no_room_for) fail("there is not enough memory for {}", spec.stage.name);
    ++traced.compiled;
    return std::make_unique<TracedShard>(device_->compile(spec), *device_, traced);
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override { return device_->make_tensor(shape); }

  Traced traced;

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace convoy
