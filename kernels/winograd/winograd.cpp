#include "kernels/winograd/winograd.hpp"

namespace convoy {

#if defined(__x86_64__)

extern const WinogradKernels kWinogradAvx2;
extern const WinogradKernels kWinogradAvx512;

const WinogradKernels* winograd_kernels(int width) {
  if (width == 16 && __builtin_cpu_supports("avx512f") != 0) return &kWinogradAvx512;
  if (width == 8 && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) return &kWinogradAvx2;
  return nullptr;
}

#else

const WinogradKernels* winograd_kernels(int) { return nullptr; }

#endif

double winograd_gain(const WinogradShape& shape) {
  const int points = shape.kernel == 3 ? kWinogradPointsOf3 : kWinogradPointsOf5;
  const int outputs = points + 1 - shape.kernel;
  const auto tiles_along = [&](int extent) { return (extent + outputs - 1) / outputs; };
  const double places = double{1} * shape.samples * shape.out_h * shape.out_w;
  const double tiles = double{1} * shape.samples * tiles_along(shape.out_h) * tiles_along(shape.out_w);
  // The multiplications for a channel and a filter: by the definition, and by points. The factors are fitted to the
  // times of 212 shapes on a Xeon, with AVX-512 and with AVX2 (within 15 and 12 % in the median): products of small
  // matrices are slower than oneDNN's convolutions, the values of a tile's inputs and outputs cost as much as 14
  // products, and those of filters as much as 60.
  const double by_definition = places * shape.kernel * shape.kernel;
  const double by_points = 1.5 * tiles + 14.0 * tiles * (1.0 / shape.channels + 1.0 / shape.filters) + 60.0;
  return by_definition / (points * points * by_points);
}

}  // namespace convoy
