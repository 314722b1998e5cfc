// The limits of the GPU that host_gpu.cpp emulates.
#pragma once

#include <cstddef>

#include "kernels/cuda/gpu.hpp"

namespace convoy {

struct HostGpuLimits {
  std::size_t memory = std::size_t{1} << 30;  ///< bytes that it reports
  std::size_t room = std::size_t{1} << 30;    ///< bytes that it can allocate
  bool lost = false;                          ///< whether every call fails from now on
};

HostGpuLimits& host_gpu_limits();

}  // namespace convoy
