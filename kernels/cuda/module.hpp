// The functions of the CUDA module, which devices/cuda.cpp finds by name. Program and module are built together; the
// version check rejects a module from another build.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/bare_convolution.hpp"
#include "kernels/device.hpp"

namespace convoy {

/// A GPU of this machine, for the table of devices.
struct CudaRow {
  int number = 0;
  std::string description;
  std::string unusable;  ///< the reason why it cannot be used; empty if it can
};

/// The device that convoy_cuda_make() creates.
struct CudaRequest {
  std::string name;  ///< the device's name
  int number = 0;
  bool cudnn = true;  ///< false: convolutions use cuBLAS
  bool tf32 = false;
};

struct BareCudnnRequest {
  int number = 0;  ///< the GPU's
  Stage stage;
  int filters = 0;
  int batch = 0;
  bool tf32 = false;
};

extern "C" {
/// Returns the module's version, which must equal the program's CONVOY_VERSION.
const char* convoy_cuda_version();
/// Returns whether cuDNN is built in.
bool convoy_cuda_has_cudnn();
/// Appends a row for each GPU. Throws Error where CUDA finds no usable GPU.
void convoy_cuda_list(std::vector<CudaRow>& rows);
/// Creates a device. Throws Error where the GPU cannot be used.
void convoy_cuda_make(const CudaRequest& request, std::unique_ptr<Device>& device);
/// cuDNN's convolution by itself, by the fastest algorithm of each pass, whether or not it gives the same bits each
/// time: once for NCHW and once for NHWC where cuDNN computes it so. None where cuDNN is not built in, or where padding
/// differs from side to side. Throws Error where the GPU cannot be used.
void convoy_cuda_bare(const BareCudnnRequest& request, BareLayouts& layouts);
}

}  // namespace convoy
