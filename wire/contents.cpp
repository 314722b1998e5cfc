#include "wire/contents.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "wire/stream.hpp"

namespace convoy::wire {

std::string to_text(const Content& content) { return fmt::format("{:016x}{:016x}", content.high, content.low); }

Content content_of(const std::vector<std::span<const float>>& values) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const std::span<const float> each : values) XXH3_128bits_update(&state, each.data(), each.size_bytes());
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.high64, hash.low64};
}

Content content_of(std::span<const std::uint8_t> pixels) {
  const XXH128_hash_t hash = XXH3_128bits(pixels.data(), pixels.size());
  return {hash.high64, hash.low64};
}

std::vector<FilterRange> state_blocks(FilterRange filters) {
  constexpr int kBlock = 16;
  std::vector<FilterRange> blocks;
  const int end = filters.first + filters.count;
  for (int first = filters.first; first < end;) {
    const int next = std::min(end, (first / kBlock + 1) * kBlock);
    blocks.push_back({first, next - first});
    first = next;
  }
  return blocks;
}

ShardState block_of(const ShardState& state, FilterRange filters, FilterRange block) {
  return slice(state, {block.first - filters.first, block.count});
}

void set_block(const ShardState& part, FilterRange block, FilterRange filters, ShardState& state) {
  paste(part, {block.first - filters.first, block.count}, state);
}

std::vector<Content> contents_of(const ShardState& state, FilterRange filters) {
  std::vector<Content> contents;
  for (const FilterRange& block : state_blocks(filters)) {
    const ShardState part = block_of(state, filters, block);
    contents.push_back(content_of(values_of(part)));
  }
  return contents;
}

}  // namespace convoy::wire
