#include "bench/bare_convolution.hpp"
#include "devices/cuda.hpp"

namespace convoy {

BareLayouts make_bare_cudnn_convolutions(int gpu, const Stage& stage, int filters, int batch, bool tf32) {
  return make_bare_cudnn({.number = gpu, .stage = stage, .filters = filters, .batch = batch, .tf32 = tf32});
}

}  // namespace convoy
