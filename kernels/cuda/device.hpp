// The device for NVIDIA GPUs. It is compiled into a module of its own, which a program loads when such a device is
// requested (devices/cuda.hpp).
#pragma once

#include <memory>

#include "kernels/cuda/convolution.hpp"

namespace convoy {

/// Returns the convolution of a shard, or null if the library cannot compute it; then matrix products take its
/// place.
using MakeCudaConvolution = std::unique_ptr<CudaConvolution> (*)(cuda::Gpu& gpu, CudaScratch& scratch,
                                                                 const ShardSpec& spec);

/// Returns a device called `name` on `gpu`, whose convolutions `make` creates; `library` names their library for
/// people.
std::unique_ptr<Device> make_cuda_device(const std::string& name, const std::string& library,
                                         std::unique_ptr<cuda::Gpu> gpu, MakeCudaConvolution make);

}  // namespace convoy
