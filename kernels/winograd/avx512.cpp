// CMake compiles this source for AVX-512, on x86-64 alone.
#include "kernels/winograd/kernels.hpp"

namespace convoy {

extern const WinogradKernels kWinogradAvx512;
const WinogradKernels kWinogradAvx512 = kKernels;

}  // namespace convoy
