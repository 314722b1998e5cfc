// The one list of stages that every device is tested on.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "kernels/device.hpp"

namespace convoy {

struct StageCase {
  std::string name;
  ShardSpec spec;
};

void PrintTo(const StageCase& c, std::ostream* out);

/// Odd sizes, strides, pads, kernels, filter ranges, and every channel layer in many orders; small enough for the
/// reference device.
const std::vector<StageCase>& stage_cases();
/// The one of that name.
const StageCase& stage_case(const std::string& name);
/// Its convolution with layers that have no jumps: coarse rounding may turn a ReLU or move a maximum, and the gradient
/// with it.
ShardSpec smooth_case(const std::string& name);

/// A training state and an input with values in [-1, 1], the same for the same case.
ShardState random_state(const ShardSpec& spec);
Tensor random_input(const ShardSpec& spec);
Tensor random_output_gradient(const ShardSpec& spec);
/// What its Add layers add.
std::vector<Tensor> random_added(const ShardSpec& spec);

/// Checks forward (testing and training), gradients, three updates, the state's round trip, and that a second run gives
/// the same bits, against the reference in double; tolerances scale with the reduction length and with `epsilon`, the
/// relative rounding of one value.
void expect_agreement(Device& device, const ShardSpec& spec, double epsilon = 0x1.0p-23);

}  // namespace convoy
