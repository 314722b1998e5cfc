#include "model/content_hash.hpp"

#include <xxhash.h>

namespace convoy {

ContentHash content_hash(std::span<const std::uint8_t> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace convoy
