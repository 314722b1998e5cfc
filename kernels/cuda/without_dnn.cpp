// Takes the place of dnn_convolution.cpp and bare_convolution.cpp where cuDNN was not found.
#include "kernels/cuda/convolution.hpp"
#include "kernels/cuda/module.hpp"

namespace convoy {

bool has_cudnn() { return false; }

std::unique_ptr<CudaConvolution> make_cudnn_convolution(cuda::Gpu&, CudaScratch&, const ShardSpec&) { return nullptr; }

extern "C" void convoy_cuda_bare(const BareCudnnRequest&, BareLayouts&) {}

}  // namespace convoy
