// The machine's floating-point peak, measured.
#pragma once

namespace convoy {

/// GFLOP/s of fused multiply-adds in registers, on `threads` threads, with the widest vectors that this machine has.
double measure_fma_peak(int threads);

}  // namespace convoy
