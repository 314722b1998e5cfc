// Vectors of CONVOY_VECTOR_WIDTH floats, which the including source defines: 16 with AVX-512, or 8 with AVX2 and FMA.
#pragma once

#include <immintrin.h>

#define CONVOY_INLINE inline __attribute__((always_inline))

namespace convoy {
namespace {

constexpr int kWidth = CONVOY_VECTOR_WIDTH;

#if CONVOY_VECTOR_WIDTH == 16

using Vec = __m512;
/// Tiles that one multiplication takes at a time: with two blocks of filters their sums fill 28 of 32 registers.
constexpr int kTileRows = 14;

CONVOY_INLINE Vec zero() { return _mm512_setzero_ps(); }
CONVOY_INLINE Vec all(float value) { return _mm512_set1_ps(value); }
CONVOY_INLINE Vec load(const float* from) { return _mm512_loadu_ps(from); }
CONVOY_INLINE void store(float* to, Vec values) { _mm512_storeu_ps(to, values); }
CONVOY_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
/// Multiplies negative values by `slope`. Minus infinity becomes 0 with a slope of 0, and NaN stays NaN.
CONVOY_INLINE Vec relu(Vec x, float slope) {
  return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, zero(), _CMP_LT_OQ), slope == 0.0F ? zero() : x * all(slope));
}

#else

using Vec = __m256;
/// With two blocks of filters the sums fill 12 of 16 registers.
constexpr int kTileRows = 6;

CONVOY_INLINE Vec zero() { return _mm256_setzero_ps(); }
CONVOY_INLINE Vec all(float value) { return _mm256_set1_ps(value); }
CONVOY_INLINE Vec load(const float* from) { return _mm256_loadu_ps(from); }
CONVOY_INLINE void store(float* to, Vec values) { _mm256_storeu_ps(to, values); }
CONVOY_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
CONVOY_INLINE Vec relu(Vec x, float slope) {
  return _mm256_blendv_ps(x, slope == 0.0F ? zero() : x * all(slope), _mm256_cmp_ps(x, zero(), _CMP_LT_OQ));
}

#endif

}  // namespace
}  // namespace convoy
