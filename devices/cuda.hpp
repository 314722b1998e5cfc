// NVIDIA GPUs, through a module that is loaded at run time. A machine without CUDA's libraries lists no GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/module.hpp"

namespace convoy {

/// Returns the GPUs of this machine. Throws Error where the module, a library that it needs, or a GPU is missing.
std::vector<CudaRow> cuda_gpus();
/// Returns whether the module computes convolutions with cuDNN, so that cuBLAS is an alternative to it.
bool cuda_has_cudnn();
/// Creates a device. Throws Error where the GPU cannot be used.
std::unique_ptr<Device> make_cuda(const CudaRequest& request);
/// cuDNN's convolution by itself, in each layout that cuDNN computes; see convoy_cuda_bare.
BareLayouts make_bare_cudnn(const BareCudnnRequest& request);

}  // namespace convoy
