#include "core/number_type.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/wide.hpp"

namespace convoy {
namespace {

constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
constexpr std::uint32_t kInfinity = 0x7F800000;
// The exponent field of fp16 lies 13 bits lower, and its bias is smaller by 112.
constexpr std::uint32_t kRebias = 112U << 23U;
constexpr std::uint32_t kHalfInfinity = 0x7C00;
constexpr std::uint32_t kHalfOverflow = 0x477FF000;  // 65520, the smallest magnitude that rounds to 65536
constexpr std::uint32_t kHalfNormal = 0x38800000;    // 2^-14, the smallest normal value
constexpr std::uint32_t kHalfUnit = 0x3F000000;      // 0.5; adding it leaves multiples of 2^-24 in the lowest bits

// Selects instead of branches let compilers vectorise the formats.
struct Fp32 {
  using Bits = std::uint32_t;
  static CONVOY_INLINE float decode(std::uint32_t value) { return std::bit_cast<float>(value); }
};

struct Bf16 {
  using Bits = std::uint16_t;
  static CONVOY_INLINE std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
    const std::uint32_t quiet = bits | 0x400000U;
    return static_cast<std::uint16_t>(((bits & kMagnitude) > kInfinity ? quiet : rounded) >> 16U);
  }
  static CONVOY_INLINE float decode(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16U); }
};

struct Fp16 {
  using Bits = std::uint16_t;
  static CONVOY_INLINE std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t normal = (magnitude - kRebias + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
    // The floating-point addition does the rounding.
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kHalfUnit);
    const std::uint32_t small = std::bit_cast<std::uint32_t>(sum) - kHalfUnit;
    const std::uint32_t large = magnitude > kInfinity ? 0x7E00U : kHalfInfinity;
    const std::uint32_t half = magnitude >= kHalfOverflow ? large : magnitude < kHalfNormal ? small : normal;
    return static_cast<std::uint16_t>(half | ((bits >> 16U) & 0x8000U));
  }
  static CONVOY_INLINE float decode(std::uint16_t value) {
    const std::uint32_t magnitude = value & 0x7FFFU;
    const std::uint32_t normal = (magnitude << 13U) + (magnitude >= kHalfInfinity ? 2 * kRebias : kRebias);
    // A subnormal value is a multiple of 2^-24.
    const float multiple = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1.0p-24F;
    const auto small = std::bit_cast<std::uint32_t>(multiple);
    const std::uint32_t sign = (value & 0x8000U) << 16U;
    return std::bit_cast<float>((magnitude < 0x400U ? small : normal) | sign);
  }
};

// Frames are not aligned, so values go through memcpy.
template <class Format>
CONVOY_INLINE void encode_all(std::span<const float> from, std::byte* to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::uint16_t value = Format::encode(from[i]);
    std::memcpy(to + i * sizeof(value), &value, sizeof(value));
  }
}

template <class Format, bool kAdd>
CONVOY_INLINE void decode_all(const std::byte* from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    typename Format::Bits bits = 0;
    std::memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
    const float value = Format::decode(bits);
    to[i] = kAdd ? to[i] + value : value;
  }
}

#ifdef CONVOY_WIDE
template <class Format>
CONVOY_WIDE void encode_wide(std::span<const float> from, std::byte* to) {
  encode_all<Format>(from, to);
}

template <class Format, bool kAdd>
CONVOY_WIDE void decode_wide(const std::byte* from, std::span<float> to) {
  decode_all<Format, kAdd>(from, to);
}
#endif

template <class Format>
void encode_as(std::span<const float> from, std::byte* to) {
#ifdef CONVOY_WIDE
  if (has_wide_vectors()) return encode_wide<Format>(from, to);
#endif
  encode_all<Format>(from, to);
}

template <class Format, bool kAdd>
void decode_as(const std::byte* from, std::span<float> to) {
#ifdef CONVOY_WIDE
  if (has_wide_vectors()) return decode_wide<Format, kAdd>(from, to);
#endif
  decode_all<Format, kAdd>(from, to);
}

constexpr std::size_t kBlock = 64;
constexpr std::size_t kBlockBytes = sizeof(float) + kBlock;
constexpr float kMostSteps = 127.0F;
constexpr float kSmallest = 1e-30F;  // smaller maxima count as zero, because their reciprocal could be infinite

/// SplitMix64 (Steele et al., OOPSLA 2014) gives an independent number for each value, cheaply and in any order.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

void decode_blocks(const std::byte* from, std::span<float> to) {
  for (std::size_t begin = 0; begin < to.size(); begin += kBlock) {
    const std::span<float> block = to.subspan(begin, std::min(kBlock, to.size() - begin));
    float step = 0.0F;
    std::memcpy(&step, from, sizeof step);
    from += sizeof step;
    for (float& value : block) value = step * static_cast<float>(static_cast<std::int8_t>(*from++));
  }
}

}  // namespace

std::size_t bytes_of(NumberType type, std::size_t count) {
  if (type == NumberType::int8) return count + sizeof(float) * ((count + kBlock - 1) / kBlock);
  return count * (type == NumberType::fp32 ? 4 : 2);
}

std::size_t values_in(NumberType type, std::size_t bytes) {
  if (type == NumberType::int8) {
    const std::size_t rest = bytes % kBlockBytes;
    if (rest == 0) return bytes / kBlockBytes * kBlock;
    return rest <= sizeof(float) ? 0 : bytes / kBlockBytes * kBlock + rest - sizeof(float);
  }
  const std::size_t size = bytes_of(type, 1);
  return bytes % size == 0 ? bytes / size : 0;
}

void encode(NumberType type, std::span<const float> from, std::byte* to) {
  switch (type) {
    case NumberType::fp32: std::memcpy(to, from.data(), from.size_bytes()); return;
    case NumberType::bf16: encode_as<Bf16>(from, to); return;
    case NumberType::fp16: encode_as<Fp16>(from, to); return;
    case NumberType::int8: break;
  }
}

void round_to(NumberType type, std::span<float> values) {
  if (type == NumberType::fp32) return;
  constexpr std::size_t kSome = 4096;
  std::array<std::byte, kSome * sizeof(float)> bytes;
  for (std::size_t done = 0; done < values.size(); done += kSome) {
    const auto some = values.subspan(done, std::min(kSome, values.size() - done));
    encode(type, some, bytes.data());
    decode(type, bytes.data(), some);
  }
}

void encode_by_chance(std::span<const float> from, std::byte* to, std::uint64_t seed) {
  for (std::size_t begin = 0; begin < from.size(); begin += kBlock) {
    const std::span<const float> block = from.subspan(begin, std::min(kBlock, from.size() - begin));
    float largest = 0.0F;
    for (const float value : block) {
      if (std::isnan(value)) largest = value;
      if (std::abs(value) > largest) largest = std::abs(value);  // the comparison is false once `largest` is NaN
    }
    if (largest < kSmallest) largest = 0.0F;
    const float step = largest / kMostSteps;
    std::memcpy(to, &step, sizeof step);
    to += sizeof step;
    const float inverse = step > 0.0F && std::isfinite(largest) ? kMostSteps / largest : 0.0F;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float chance = static_cast<float>(mixed(seed + begin + i) >> 40U) * 0x1.0p-24F;
      const float steps = std::isfinite(largest) ? std::floor(block[i] * inverse + chance) : 1.0F;
      *to++ = static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(steps, -kMostSteps, kMostSteps)));
    }
  }
}

void decode(NumberType type, const std::byte* from, std::span<float> to) {
  switch (type) {
    case NumberType::fp32: std::memcpy(to.data(), from, to.size_bytes()); return;
    case NumberType::bf16: decode_as<Bf16, false>(from, to); return;
    case NumberType::fp16: decode_as<Fp16, false>(from, to); return;
    case NumberType::int8: decode_blocks(from, to); return;
  }
}

void decode_and_add(NumberType type, const std::byte* from, std::span<float> to) {
  switch (type) {
    case NumberType::fp32: decode_as<Fp32, true>(from, to); return;
    case NumberType::bf16: decode_as<Bf16, true>(from, to); return;
    case NumberType::fp16: decode_as<Fp16, true>(from, to); return;
    case NumberType::int8: break;
  }
}

void encode_places(NumberType type, const std::vector<std::span<const float>>& places, std::byte* to,
                   std::uint64_t seed) {
  if (type == NumberType::int8) {  // a block may have values of two places
    std::vector<float> values;
    for (const std::span<const float> place : places) values.insert(values.end(), place.begin(), place.end());
    return encode_by_chance(values, to, seed);
  }
  for (const std::span<const float> place : places) {
    encode(type, place, to);
    to += bytes_of(type, place.size());
  }
}

}  // namespace convoy
