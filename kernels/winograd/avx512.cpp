// CMake compiles this source for AVX-512, on x86-64 alone.
#define CONVOY_VECTOR_WIDTH 16
#include "kernels/winograd/kernels.hpp"

namespace convoy {

extern const WinogradKernels kWinogradAvx512;
const WinogradKernels kWinogradAvx512 = kKernels;

}  // namespace convoy
