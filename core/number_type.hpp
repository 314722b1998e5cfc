// Number types in which tensors travel; they are computed with in floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace convoy {

/// IEEE 754 single precision; bfloat16, its upper half (8 bits of mantissa, the same range); half precision (11 bits, up
/// to 65504); and for gradients, integers of 8 bits: 64 of them after the float that they are multiples of, the last ones
/// maybe fewer.
enum class NumberType { fp32, bf16, fp16, int8 };

/// Of so many values.
std::size_t bytes_of(NumberType type, std::size_t count);
/// How many values so many bytes hold; 0 where that is no whole number.
std::size_t values_in(NumberType type, std::size_t bytes);

/// Rounds to nearest, ties to even; `to` has room for as many values. What is too large for fp16 becomes infinite; what is
/// not a number stays so. Not for int8.
void encode(NumberType type, std::span<const float> from, std::byte* to);
/// Exact. `from` holds as many values as `to`.
void decode(NumberType type, const std::byte* from, std::span<float> to);

/// int8: each value up or down to a multiple of its block's largest / 127, by chance (the bits of `seed` decide), so that
/// on average nothing is lost (stochastic rounding: Gupta et al., "Deep learning with limited numerical precision", ICML
/// 2015). A block with an infinite value or what is no number becomes that.
void encode_by_chance(std::span<const float> from, std::byte* to, std::uint64_t seed);

}  // namespace convoy
