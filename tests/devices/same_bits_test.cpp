// Tests the check that a device updates weights to the bits of the definition: honest devices pass, and each of the
// ways in which a compiler or a GPU may round otherwise is found.

#include "devices/same_bits.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "devices/registry.hpp"
#include "kernels/reference/device.hpp"

namespace convoy {
namespace {

TEST(SameBits, AreKeptByEveryDeviceOfThisMachine) {
  for (const DeviceRow& row : list_devices()) {
    if (!row.unusable.empty() || row.name == "reference64") continue;
    const auto device = make_device(row.name, {.threads = 2});
    // A driver that promises less is believed.
    EXPECT_EQ(updates_to_same_bits(*device), device->info().rounds_correctly) << row.name;
  }
  for (const char* name : {"cpu", "eigen", "reference", "check:eigen,reference"}) {
    EXPECT_TRUE(updates_to_same_bits(*make_device(name, {.threads = 2}))) << name;
  }
}

TEST(SameBits, ArePromisedByPocl) {
  for (const DeviceRow& row : list_devices()) {
    if (row.name.starts_with("opencl:") && row.description.find("pthread") != std::string::npos) {
      EXPECT_TRUE(make_device(row.name, {})->info().rounds_correctly) << row.description;
      return;
    }
  }
  GTEST_SKIP() << "this machine has no PoCL";
}

TEST(SameBits, AreNotAskedOfPacedDevices) { EXPECT_TRUE(updates_to_same_bits(*make_device("paced:240", {}))); }

TEST(SameBits, AreNotKeptInDoublePrecision) { EXPECT_FALSE(updates_to_same_bits(*make_device("reference64", {}))); }

float flushed(float value) { return std::abs(value) < std::numeric_limits<float>::min() ? 0.0F * value : value; }

/// The ways in which a kernel may round otherwise.
enum class Fault { promises_less, fused_slope, fused_velocity, fused_weight, near_root, near_quotient, no_denormals };

void update_with(Fault fault, const UpdateStep& step, HostParameter<float>& parameter) {
  const float mean_scale = step.learning_rate / step.correction1;
  const float square_scale = 1.0F / step.correction2;
  for (std::size_t i = 0; i < parameter.value.size(); ++i) {
    const float g = parameter.gradient.data()[i];
    float& w = parameter.value.data()[i];
    float& v = parameter.moments[0].data()[i];
    float& s = parameter.moments[1].data()[i];
    const float slope = fault == Fault::fused_slope ? std::fma(step.gradient_scale, g, step.weight_decay * w)
                                                    : step.gradient_scale * g + step.weight_decay * w;
    if (step.optimizer == Optimizer::adam) {
      v = step.momentum * v + (1.0F - step.momentum) * slope;
      s = step.beta2 * s + (1.0F - step.beta2) * slope * slope;
      const float exact = std::sqrt(square_scale * s);
      const float root = fault == Fault::near_root ? std::nextafter(exact, 0.0F) : exact;
      const float change = fault == Fault::near_quotient ? mean_scale * v * (1.0F / (root + step.epsilon))
                                                         : mean_scale * v / (root + step.epsilon);
      w -= change;
    } else {
      v = fault == Fault::fused_velocity ? std::fma(step.momentum, v, slope) : step.momentum * v + slope;
      const float by = step.optimizer == Optimizer::nesterov ? slope + step.momentum * v : v;
      w = fault == Fault::fused_weight ? std::fma(-step.learning_rate, by, w) : w - step.learning_rate * by;
    }
    if (fault == Fault::no_denormals) v = flushed(v);
  }
}

class FaultyShard : public ReferenceShard<float> {
 public:
  FaultyShard(const ShardSpec& spec, Fault fault) : ReferenceShard(spec), fault_(fault) {}
  void update(const UpdateStep& step) override {
    for (HostParameter<float>& each : parameters.all()) update_with(fault_, step, each);
  }

 private:
  Fault fault_;
};

class FaultyDevice : public Device {
 public:
  explicit FaultyDevice(Fault fault) : fault_(fault) { info_.rounds_correctly = fault != Fault::promises_less; }
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override { return std::make_unique<FaultyShard>(spec, fault_); }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override {
    return std::make_unique<HostTensor<float>>(shape);
  }

 private:
  Fault fault_;
  DeviceInfo info_;
};

TEST(SameBits, AreMissedByAKernelThatRoundsOtherwise) {
  for (const Fault fault : {Fault::promises_less, Fault::fused_slope, Fault::fused_velocity, Fault::fused_weight,
                            Fault::near_root, Fault::near_quotient, Fault::no_denormals}) {
    FaultyDevice device(fault);
    EXPECT_FALSE(updates_to_same_bits(device)) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace convoy
