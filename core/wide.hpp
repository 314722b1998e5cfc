// Support for loops that are compiled several times: for any processor, and on x86 also for AVX2 and AVX-512, whose
// vectors are two and four times as long. All versions give the same bits, because each value is computed
// independently.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define CONVOY_WIDE __attribute__((target("avx2")))
#define CONVOY_WIDEST __attribute__((target("avx512f")))
#define CONVOY_INLINE inline __attribute__((always_inline))
#else
#define CONVOY_INLINE inline
#endif

namespace convoy {

#ifdef CONVOY_WIDE
inline bool has_wide_vectors() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
inline bool has_widest_vectors() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
}
#endif

}  // namespace convoy
