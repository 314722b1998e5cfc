// CMake compiles this source for AVX2 and FMA, on x86-64 alone.
#define CONVOY_VECTOR_WIDTH 8
#include "kernels/winograd/kernels.hpp"

namespace convoy {

extern const WinogradKernels kWinogradAvx2;
const WinogradKernels kWinogradAvx2 = kKernels;

}  // namespace convoy
