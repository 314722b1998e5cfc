// Maps of images that a frozen trunk has computed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/images.hpp"
#include "core/shard_state.hpp"
#include "model/content_hash.hpp"

namespace convoy {

/// Keeps the maps of images, which it recognises by a hash of 128 bits of their pixels. All maps belong to the same
/// weights and normalisation.
class KeptMaps {
 public:
  /// Keeps as many maps as fit into `bytes`.
  explicit KeptMaps(std::size_t bytes) : room_(bytes), bytes_(bytes) {}

  /// Says by which weights the maps to come are computed. Forgets the maps of other weights.
  void use(const std::vector<ShardState>& states);
  /// Says how the images to come are normalised. Forgets the maps of images that were normalised otherwise.
  void use(const std::vector<ChannelScale>& scales);

  /// Returns the maps of an image, or nothing. The values are valid until the next use().
  std::optional<std::span<const float>> find(const ContentHash& image) const;
  /// Keeps the maps of an image if there is room.
  void keep(const ContentHash& image, std::span<const float> maps);

 private:
  struct Hash {
    std::size_t operator()(const ContentHash& key) const { return key.low; }
  };

  void forget();

  std::size_t room_;  ///< bytes that are left
  std::size_t bytes_;
  std::unordered_map<ContentHash, std::vector<float>, Hash> maps_;
  std::optional<ContentHash> weights_;
  std::vector<ChannelScale> scales_;
};

}  // namespace convoy
