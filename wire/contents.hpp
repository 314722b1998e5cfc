// What states of filters are known by: a hash of their values, so that what a slave has had need not travel again.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/shard_state.hpp"

namespace convoy::wire {

/// XXH3's 128 bits of the values' bytes. Equal by chance never; a peer who wants them equal harms itself.
struct Content {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Content&) const = default;
};

/// 32 hexadecimal digits.
std::string to_text(const Content& content);

Content content_of(const std::vector<std::span<const float>>& values);

/// The parts that a state is known by: filters up to the next multiple of 16, and so on. Where shares change, most parts
/// remain the same.
std::vector<FilterRange> state_blocks(FilterRange filters);

/// Of each of the blocks of `filters`, whose state it is.
std::vector<Content> contents_of(const ShardState& state, FilterRange filters);

/// Block `block` of a state of `filters`.
ShardState block_of(const ShardState& state, FilterRange filters, FilterRange block);
/// Into it.
void set_block(const ShardState& part, FilterRange block, FilterRange filters, ShardState& state);

}  // namespace convoy::wire
