// The passes for kernels of 3 x 3 and 5 x 5, as a table.
#pragma once

#include "kernels/winograd/convolve.hpp"
#include "kernels/winograd/gradient.hpp"

namespace convoy {
namespace {

std::size_t convolve_scratch(const WinogradShape& shape, int threads) {
  return convolve_scratch_of(shape, shape.kernel == 3 ? kWinogradPointsOf3 : kWinogradPointsOf5, threads);
}

std::size_t gradient_scratch(const WinogradShape& shape, int threads) {
  return shape.kernel == 3 ? FindingGradient<kWinogradPointsOf3>(shape, threads).scratch()
                           : FindingGradient<kWinogradPointsOf5>(shape, threads).scratch();
}

void convolve(const WinogradShape& shape, const float* input, const float* weights, bool turned,
              const WinogradEpilogue& epilogue, float* output, float* scratch, int threads) {
  const auto pass = shape.kernel == 3 ? convolve_with<kWinogradPointsOf3, 3> : convolve_with<kWinogradPointsOf5, 5>;
  pass(shape, input, weights, turned, epilogue, output, scratch, threads);
}

void find_gradient(const WinogradShape& shape, const float* input, const float* output_gradient,
                   float* weights_gradient, float* scratch, int threads) {
  const auto pass =
      shape.kernel == 3 ? find_gradient_with<kWinogradPointsOf3, 3> : find_gradient_with<kWinogradPointsOf5, 5>;
  pass(shape, input, output_gradient, weights_gradient, scratch, threads);
}

constexpr WinogradKernels kKernels{kWidth, convolve_scratch, gradient_scratch, convolve, find_gradient};

}  // namespace
}  // namespace convoy
