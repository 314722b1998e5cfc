// Compares activations with the values that PyTorch gives, in double precision and on the devices of this build.

#include "kernels/host/activation.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "devices/registry.hpp"
#include "tests/support/known_activations.hpp"

namespace convoy {
namespace {

TEST(Activations, AreThoseOfPyTorch) {
  for (const KnownActivation& known : known_activations()) {
    SCOPED_TRACE(static_cast<int>(known.activation.kind));
    std::vector<double> values(kKnownInputs.size());
    activate(known.activation, kKnownInputs.data(), values.data(), values.size());
    const std::vector<double> ones(values.size(), 1.0);
    std::vector<double> derivatives(values.size());
    activate_backward(known.activation, kKnownInputs.data(), values.data(), ones.data(), derivatives.data(),
                      values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], known.values[i], 1e-7 * std::max(1.0, std::abs(known.values[i]))) << kKnownInputs[i];
      EXPECT_NEAR(derivatives[i], known.derivatives[i], 1e-7) << kKnownInputs[i];
    }
  }
}

TEST(Activations, OfDevicesAreThoseOfPyTorch) {
  for (const std::string name : {"reference", "reference64", "cpu", "eigen"}) {
    SCOPED_TRACE(name);
    expect_known_activations(*make_device(name, {.threads = 1}));
  }
}

TEST(Activations, KeepNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int kind = 0; kind <= static_cast<int>(Activation::Kind::celu); ++kind) {
    const Activation activation{static_cast<Activation::Kind>(kind), 0.25F, 0.5F};
    float value = 0.0F;
    activate(activation, &nan, &value, 1);
    EXPECT_TRUE(std::isnan(value)) << kind;
    float gradient = 0.0F;
    activate_backward(activation, &nan, &nan, &nan, &gradient, 1);
    EXPECT_TRUE(std::isnan(gradient)) << kind;
    const float healthy = 0.4F;  // between the limits of a clip
    activate_backward(activation, &healthy, &healthy, &nan, &gradient, 1);
    EXPECT_TRUE(std::isnan(gradient)) << kind;
  }
}

/// Where the derivative follows from the output, the input is not read: a device may have overwritten it.
TEST(Activations, ReadWhatTheirDerivativeFollowsFrom) {
  for (const KnownActivation& known : known_activations()) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float value = 0.5F;
    const float one = 1.0F;
    float gradient = 0.0F;
    const bool from_output = derivative_from_output(known.activation.kind);
    activate_backward(known.activation, from_output ? &nan : &value, from_output ? &value : &nan, &one, &gradient, 1);
    EXPECT_FALSE(std::isnan(gradient)) << static_cast<int>(known.activation.kind);
  }
}

}  // namespace
}  // namespace convoy
