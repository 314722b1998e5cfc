// The CPU device for machines without oneDNN (ARM boards, phones): im2col and Eigen's matrix product.
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace convoy {

/// Returns the device "eigen". Samples are divided among the threads, and the filter gradient is summed in the threads'
/// order, so equal numbers of threads give equal bits.
std::unique_ptr<Device> make_eigen_device(int threads);

}  // namespace convoy
