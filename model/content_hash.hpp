// Hashes by which contents are recognised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace convoy {

struct ContentHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const ContentHash&) const = default;
};

/// Returns the XXH3 hash of 128 bits of the bytes.
ContentHash content_hash(std::span<const std::uint8_t> bytes);

}  // namespace convoy
