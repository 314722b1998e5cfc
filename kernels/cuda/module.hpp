// The functions of the CUDA module, which devices/cuda.cpp finds by name. Program and module are built together; the
// version keeps a module from another build apart.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.hpp"

namespace convoy {

struct CudaRow {
  int number = 0;
  std::string description;
  std::string unusable;  ///< why it cannot be used; empty when it can
};

struct CudaRequest {
  std::string name;  ///< the device's
  int number = 0;
  bool cudnn = true;  ///< false: matrix products by cuBLAS
  bool tf32 = false;
};

extern "C" {
/// Must be the program's own CONVOY_VERSION.
const char* convoy_cuda_version();
/// Whether cuDNN is built in.
bool convoy_cuda_has_cudnn();
/// The GPUs. Throws Error where there is none to use.
void convoy_cuda_list(std::vector<CudaRow>& rows);
/// Throws Error where the GPU cannot be used.
void convoy_cuda_make(const CudaRequest& request, std::unique_ptr<Device>& device);
}

}  // namespace convoy
