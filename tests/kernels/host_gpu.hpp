// The limits of the GPU that host_gpu.cpp makes of the host.
#pragma once

#include <cstddef>

#include "kernels/cuda/gpu.hpp"

namespace convoy {

struct HostGpuLimits {
  std::size_t memory = std::size_t{1} << 30;  ///< what it says it has
  std::size_t room = std::size_t{1} << 30;    ///< what it gives
  bool lost = false;                          ///< everything from now on fails
};

HostGpuLimits& host_gpu_limits();

}  // namespace convoy
