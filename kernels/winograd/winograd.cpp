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
  // times of 250 shapes on a Xeon, with AVX-512 and with AVX2 (within 4 to 6 % in the median for kernels of 3 x 3, and
  // 16 to 19 % for 5 x 5): products of small matrices are slower than oneDNN's convolutions, and the values of a tile's
  // inputs and outputs, and those of filters, cost as much as some products.
  const bool of_3 = shape.kernel == 3;
  const double product = of_3 ? 1.5 : 2.3;
  const double tile_values = of_3 ? 11.0 : 20.0;
  const double filter_values = of_3 ? 11.0 : 24.0;
  const double by_definition = places * shape.kernel * shape.kernel;
  const double by_points =
      tiles * (product + tile_values * (1.0 / shape.channels + 1.0 / shape.filters)) + filter_values;
  return by_definition / (points * points * by_points);
}

}  // namespace convoy
