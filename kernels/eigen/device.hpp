// The CPU device of machines without oneDNN (ARM, phones): im2col and Eigen's matrix product.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// "eigen". Samples are divided among the threads; the filter gradient is summed in the threads' order, so equal
/// numbers of threads give equal bits.
std::unique_ptr<Device> make_eigen_device(int threads);

}  // namespace convoy
