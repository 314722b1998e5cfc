// NVIDIA GPUs. Compiled into a module of its own, which the program loads when it is asked for such a device
// (devices/cuda_module.hpp).
#pragma once

#include <memory>

#include "kernels/cuda/convolution.hpp"

namespace convoy {

/// Makes the convolution of a shard; null where it cannot, and matrix products take its place.
using MakeCudaConvolution = std::unique_ptr<CudaConvolution> (*)(cuda::Gpu& gpu, CudaScratch& scratch,
                                                                 const ShardSpec& spec);

/// The device `name` on a GPU, with `library` for its convolutions.
std::unique_ptr<Device> make_cuda_device(const std::string& name, const std::string& library,
                                         std::unique_ptr<cuda::Gpu> gpu, MakeCudaConvolution make);

}  // namespace convoy
