// The list of stages that every device is tested on.
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

/// The cases have odd sizes, strides, pads, kernels and filter ranges, and all channel layers in many orders. They are
/// small enough for the reference device.
const std::vector<StageCase>& stage_cases();
/// More cases, large enough for the kernels of tiles that the cpu device has (kernels/winograd).
const std::vector<StageCase>& tile_cases();
/// The case with this name, of either list.
const StageCase& stage_case(const std::string& name);
/// The case's convolution with smooth layers only. Coarse rounding could flip a ReLU or move a maximum, and so change
/// the gradient.
ShardSpec smooth_case(const std::string& name);

/// A training state and an input with values in [-1, 1], which depend only on the case.
ShardState random_state(const ShardSpec& spec);
Tensor random_input(const ShardSpec& spec);
Tensor random_output_gradient(const ShardSpec& spec);
/// The maps that the case's Add and Multiply layers take in.
std::vector<Tensor> random_added(const ShardSpec& spec);

/// Compares a device with the double-precision reference: forward in testing and training, gradients, three updates,
/// reading and writing of the state, equal bits in a second run, and, with `nan`, that no NaN becomes a number. Of a
/// stage with batch norm, also compares shards that share the samples and join their statistics. Tolerances scale with
/// the length of sums and with `epsilon`, the relative rounding error of one value.
void expect_agreement(Device& device, const ShardSpec& spec, double epsilon = 0x1.0p-23, bool nan = true);

}  // namespace convoy
