// Number types in which tensors travel; they are computed with in floats.
#pragma once

#include <cstddef>
#include <span>

namespace convoy {

/// IEEE 754 single precision; bfloat16, its upper half (8 bits of mantissa, the same range); half precision (11 bits, up
/// to 65504).
enum class NumberType { fp32, bf16, fp16 };

/// Of one value.
std::size_t bytes_of(NumberType type);

/// Rounds to nearest, ties to even; `to` has room for as many values. What is too large for fp16 becomes infinite; what is
/// not a number stays so.
void encode(NumberType type, std::span<const float> from, std::byte* to);
/// Exact. `from` holds as many values as `to`.
void decode(NumberType type, const std::byte* from, std::span<float> to);

}  // namespace convoy
