// NVIDIA GPUs, through a module that is loaded when the program runs: a machine without CUDA's libraries is a machine
// without rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/module.hpp"

namespace convoy {

/// The GPUs of this machine. Throws Error where the module or a library that it needs is not there, or no GPU is.
std::vector<CudaRow> cuda_gpus();
/// Whether the module computes convolutions with cuDNN, so that matrix products are a second way.
bool cuda_has_cudnn();
/// Throws Error where the GPU cannot be used.
std::unique_ptr<Device> make_cuda(const CudaRequest& request);

}  // namespace convoy
