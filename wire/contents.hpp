// Content hashes of filter states and images. A slave that still has a state or an image with the same hash need not be
// sent it again.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/shard_state.hpp"

namespace convoy::wire {

/// The 128-bit XXH3 hash of the values' bytes. Collisions by chance are negligible; a slave that forges one harms only
/// its own run.
struct Content {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Content&) const = default;
};

/// Formats the hash as 32 hexadecimal digits.
std::string to_text(const Content& content);

Content content_of(const std::vector<std::span<const float>>& values);
/// The hash of an image's pixels.
Content content_of(std::span<const std::uint8_t> pixels);

/// Cuts a range of filters into the blocks that are hashed: block ends are the multiples of 16 and the range's end.
/// When shares change, most blocks stay the same.
std::vector<FilterRange> state_blocks(FilterRange filters);

/// The hash of each of state_blocks(filters); `state` holds the state of `filters`.
std::vector<Content> contents_of(const ShardState& state, FilterRange filters);

/// Copies block `block` out of `state`, the state of `filters`.
ShardState block_of(const ShardState& state, FilterRange filters, FilterRange block);
/// Copies `part`, the state of block `block`, into `state`, the state of `filters`.
void set_block(const ShardState& part, FilterRange block, FilterRange filters, ShardState& state);

}  // namespace convoy::wire
