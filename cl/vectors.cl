// Vectors of packed maps (layers.cl), for the convolution and its filter gradient; this file is put in front of both.
// They are compiled for one geometry and one device, with the macros
//   KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W  geometry of the convolution
//   WIDTH            columns in one vector
//   FMA              defined where the device has fused multiply-add
//   HALF             defined where the packed input and the weights are in 16 bits; sums and gradients are in 32
// Sums run in a fixed order, so that the same shard gives the same bits.

#ifdef HALF
#define STORED half
#define LOAD_STORED JOIN(vload_half, WIDTH)
#define WEIGHT(at, weights) vload_half(at, weights)
#else
#define STORED float
#define LOAD_STORED LOAD
#define WEIGHT(at, weights) (weights)[at]
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VECTOR JOIN(float, WIDTH)
#define LOAD JOIN(vload, WIDTH)
#define STORE JOIN(vstore, WIDTH)
#ifdef FMA
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// Prefetches a cache line into a processor's first-level cache with its compiler's builtin, because OpenCL's own
// prefetch does nothing there.
#define ASK_FOR(address)
#if defined(PROCESSOR) && defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#undef ASK_FOR
#define ASK_FOR(address) __builtin_prefetch((const void*)(size_t)(address), 0, 3)
#endif
#endif
