#include "kernels/cuda/module.hpp"

#include "kernels/cuda/device.hpp"

namespace convoy {

extern "C" {

const char* convoy_cuda_version() { return CONVOY_VERSION; }

bool convoy_cuda_has_cudnn() { return has_cudnn(); }

void convoy_cuda_list(std::vector<CudaRow>& rows) {
  for (const cuda::GpuInfo& gpu : cuda::list_gpus()) {
    rows.push_back({gpu.number, gpu.name + ", " + gpu.detail, gpu.unusable});
  }
}

void convoy_cuda_make(const CudaRequest& request, std::unique_ptr<Device>& device) {
  auto gpu = std::make_unique<cuda::Gpu>(request.number, request.tf32);
  const bool cudnn = request.cudnn && has_cudnn();
  device = make_cuda_device(request.name, cudnn ? "cuDNN" : "cuBLAS", std::move(gpu),
                            cudnn ? make_cudnn_convolution : make_product_convolution);
}

}  // extern "C"

}  // namespace convoy
