// Vectors of the compiler's extension, for loops over the lanes of maps that are compiled for several processors.
#pragma once

#include <cstdint>

#include "core/wide.hpp"

namespace convoy {

/// Vectors of kWidth values. Where the processor has only shorter vectors, the compiler splits them. GCC refuses a
/// width that depends on a template's parameter, so a specialisation for each width names the types.
template <int kWidth>
struct Vectors;
template <>
struct Vectors<4> {
  using Floats = float __attribute__((vector_size(4 * sizeof(float))));
  using Doubles = double __attribute__((vector_size(4 * sizeof(double))));
  using Ints = std::int32_t __attribute__((vector_size(4 * sizeof(std::int32_t))));
  using Shorts = std::uint16_t __attribute__((vector_size(4 * sizeof(std::uint16_t))));
};
template <>
struct Vectors<8> {
  using Floats = float __attribute__((vector_size(8 * sizeof(float))));
  using Doubles = double __attribute__((vector_size(8 * sizeof(double))));
  using Ints = std::int32_t __attribute__((vector_size(8 * sizeof(std::int32_t))));
  using Shorts = std::uint16_t __attribute__((vector_size(8 * sizeof(std::uint16_t))));
};
template <>
struct Vectors<16> {
  using Floats = float __attribute__((vector_size(16 * sizeof(float))));
  using Doubles = double __attribute__((vector_size(16 * sizeof(double))));
  using Ints = std::int32_t __attribute__((vector_size(16 * sizeof(std::int32_t))));
  using Shorts = std::uint16_t __attribute__((vector_size(16 * sizeof(std::uint16_t))));
};

#ifdef CONVOY_WIDE
/// Returns whether the processor has vectors of kWidth floats, and whole ones hold all lanes.
template <int kWidth>
bool fills(int lanes) {
  return (kWidth == 16 ? has_widest_vectors() : has_wide_vectors()) && lanes % kWidth == 0;
}
#endif

}  // namespace convoy
