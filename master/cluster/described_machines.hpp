// Machines that are described by their speed and link instead of being timed, for plans and simulations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nets/graph/dense_slices.hpp"
#include "plan/calibration.hpp"

namespace convoy {

struct DescribedMachine {
  double gflops = 240.0;            ///< of convolutions, in GFLOP/s
  double mbits = 1000.0;            ///< of its link, each way, in Mbit/s
  std::optional<Power> power = {};  ///< nothing where it is not known
};

/// Reads a power such as "5:25:8": the watts of a machine that idles, that computes, and that moves data. Throws Error
/// with the place.
Power power_from(const std::string& text);

/// Reads machines such as "4x240@1000" (four of 240 GFLOP/s, each behind a link of 1000 Mbit/s) or
/// "100@1000,2x400@100". The power of a machine may follow, as in "4x240@1000/5:25:8". Throws Error with the part that
/// cannot be read, or where there are more than 256 machines.
std::vector<DescribedMachine> machines_from(const std::string& text);

/// The machine that only hands out work and computes the heads.
struct DescribedMaster {
  double gflops = 240.0;
  double latency = 2e-4;  ///< of a message, in seconds
  std::optional<Power> power = {};
};

/// Returns the floating-point operations of the heads' matrix products for one image and one pass.
double head_flops(const Cut& parts);

/// Returns the calibration of slaves named slave1, slave2, ...: each pass of a stage takes its floating-point
/// operations over the machine's speed, whatever its shape. With `slices`, it has both forms of the net.
Calibration calibration_of(const std::vector<DescribedMachine>& slaves, const DescribedMaster& master, const Cut& parts,
                           int batch, const DenseSlices* slices = nullptr);

}  // namespace convoy
