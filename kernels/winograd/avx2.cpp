// CMake compiles this source for AVX2 and FMA, on x86-64 alone.
#include "kernels/winograd/kernels.hpp"

namespace convoy {

extern const WinogradKernels kWinogradAvx2;
const WinogradKernels kWinogradAvx2 = kKernels;

}  // namespace convoy
