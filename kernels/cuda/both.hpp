// CONVOY_BOTH marks functions that CUDA's compiler compiles for the GPU and for the host.
#pragma once

#ifdef __CUDACC__
#define CONVOY_BOTH __host__ __device__
#else
#include <cmath>
#define CONVOY_BOTH
#endif
