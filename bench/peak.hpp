// A measurement of the machine's floating-point peak.
#pragma once

namespace convoy {

/// Returns the GFLOP/s of fused multiply-adds in registers on `threads` threads, with the widest vectors of this
/// machine.
double measure_fma_peak(int threads);

}  // namespace convoy
