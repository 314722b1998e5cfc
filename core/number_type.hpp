// The number types in which tensors travel. All arithmetic is in floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace convoy {

/// fp32 is IEEE 754 single precision. bf16 (bfloat16) is its upper half: 8 bits of mantissa and the same range. fp16 is
/// half precision: 11 bits of mantissa, values up to 65504. int8 serves gradients: blocks of 64 signed bytes, each
/// block after the float step that its bytes are multiples of; the last block may be shorter.
enum class NumberType { fp32, bf16, fp16, int8 };

/// Returns the number of bytes that `count` values of `type` take.
std::size_t bytes_of(NumberType type, std::size_t count);
/// Returns the number of values that `bytes` bytes hold, or 0 where the bytes hold no whole number of values.
std::size_t values_in(NumberType type, std::size_t bytes);

/// Rounds `from` to nearest, ties to even, and writes the result to `to`, which must have bytes_of(type, from.size())
/// bytes. Values too large for fp16 become infinite; NaN stays NaN. For int8 use encode_by_chance().
void encode(NumberType type, std::span<const float> from, std::byte* to);
/// Decodes to.size() values from `from`. Every value of `type` is a float, so nothing is rounded.
void decode(NumberType type, const std::byte* from, std::span<float> to);
/// Decodes to.size() values of a type other than int8 from `from` and adds them to those of `to`.
void decode_and_add(NumberType type, const std::byte* from, std::span<float> to);

/// Replaces each value by the one that arrives when it travels in a type other than int8.
void round_to(NumberType type, std::span<float> values);

/// Encodes int8. Each value is rounded up or down, at random, to a multiple of its block's largest magnitude / 127, so
/// that the expected value is exact (stochastic rounding: Gupta et al., "Deep learning with limited numerical
/// precision", ICML 2015). The bits of `seed` decide the direction. A block that contains an infinity or NaN decodes to
/// infinities or NaN throughout.
void encode_by_chance(std::span<const float> from, std::byte* to, std::uint64_t seed);

/// Encodes values that lie in several places, one place after another: as encode() does or, where the type is int8, as
/// encode_by_chance().
void encode_places(NumberType type, const std::vector<std::span<const float>>& places, std::byte* to,
                   std::uint64_t seed);

}  // namespace convoy
