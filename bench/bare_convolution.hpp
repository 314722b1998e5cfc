// The baselines of devices: oneDNN's convolution primitives alone and, for NVIDIA GPUs, cuDNN's convolutions alone.
#pragma once

#include <string>
#include <vector>

#include "core/stage.hpp"
#include "core/stopwatch.hpp"
#include "kernels/bare_convolution.hpp"

namespace convoy {

/// Returns the primitives on random data, with bias, one for each layout of the maps worth trying: the primitives' own
/// choice, and channels-last. The list is empty where oneDNN is not built in.
BareLayouts make_bare_convolutions(const Stage& stage, int filters, int batch, int threads);

/// Returns the same by cuDNN on the GPU of that number. The list is empty where CUDA or cuDNN is not built in, and
/// where cuDNN does not compute this convolution.
BareLayouts make_bare_cudnn_convolutions(int gpu, const Stage& stage, int filters, int batch, bool tf32);

struct BareRequest {
  const Stage& stage;
  int filters;
  int batch;
  const std::string& device;
  int threads;
  bool tf32 = false;
};

/// Returns the baseline of the device: cuDNN for an NVIDIA GPU, oneDNN for all others.
BareLayouts make_bare_for(const BareRequest& request);
/// Returns whether the device is an NVIDIA GPU, through cuDNN or cuBLAS.
bool is_nvidia_gpu(const std::string& device);

/// Returns the seconds of one pass in each layout.
inline std::vector<double> seconds_by_layout(const BareLayouts& layouts, void (BareConvolution::*pass)()) {
  std::vector<double> seconds;
  for (const auto& layout : layouts) {
    const Stopwatch watch;
    (layout.get()->*pass)();
    seconds.push_back(watch.seconds());
  }
  return seconds;
}

}  // namespace convoy
