#include "train/kept_maps.hpp"

namespace convoy {
namespace {

template <class T>
ContentHash hash_of(std::span<const T> values) {
  return content_hash({reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()});
}

/// Returns a hash of the values of all parameters; frozen ones have no moments that matter.
ContentHash hash_of(const std::vector<ShardState>& states) {
  std::vector<ContentHash> of_parameters;
  for (const ShardState& state : states) {
    for (const Parameter& each : state.parameters) of_parameters.push_back(hash_of(each.value.span()));
  }
  return hash_of(std::span<const ContentHash>(of_parameters));
}

}  // namespace

void KeptMaps::use(const std::vector<ShardState>& states) {
  const ContentHash weights = hash_of(states);
  if (weights_ != weights) forget();
  weights_ = weights;
}

void KeptMaps::use(const std::vector<ChannelScale>& scales) {
  if (scales_ != scales) forget();
  scales_ = scales;
}

std::optional<std::span<const float>> KeptMaps::find(const ContentHash& image) const {
  const auto found = maps_.find(image);
  if (found == maps_.end()) return std::nullopt;
  return found->second;
}

void KeptMaps::keep(const ContentHash& image, std::span<const float> maps) {
  constexpr std::size_t kOverhead = 128;  // of an entry, about
  const std::size_t cost = maps.size_bytes() + kOverhead;
  if (room_ < cost) return;
  if (maps_.try_emplace(image, maps.begin(), maps.end()).second) room_ -= cost;
}

void KeptMaps::forget() {
  maps_.clear();
  room_ = bytes_;
}

}  // namespace convoy
