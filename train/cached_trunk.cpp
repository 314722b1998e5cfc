#include "train/cached_trunk.hpp"

#include <algorithm>
#include <utility>

namespace convoy {

std::string CachedTrunk::obstacle(const std::vector<Stage>& stages) {
  if (stages.empty()) return "the net has no convolution";
  if (outputs_of(stages).size() > 1) return "several losses read the maps of its convolutions";
  for (const Stage& stage : stages) {
    for (const ParameterSpec& each : parameters_of(stage, stage.conv.filters)) {
      if (each.trained && each.rate > 0.0F) {
        return fmt::format("layer {} is not frozen", each.name.substr(0, each.name.find('.')));
      }
    }
    const auto drops = [](const ChannelLayer& layer) { return std::holds_alternative<Dropout>(layer); };
    if (std::ranges::any_of(stage.after, drops)) {
      return fmt::format("a dropout behind layer {} gives other maps in each step", stage.name);
    }
  }
  return "";
}

CachedTrunk::CachedTrunk(std::unique_ptr<Trunk> trunk, std::size_t bytes)
    : trunk_(std::move(trunk)), room_(bytes), bytes_(bytes) {}

std::vector<ContentHash> CachedTrunk::keys_of(const Pixels& pixels) {
  std::vector<ContentHash> keys;
  for (int n = 0; n < pixels.shape().n; ++n) {
    keys.push_back(content_hash(pixels.samples(n, 1)));
  }
  return keys;
}

void CachedTrunk::begin(const Images& images, const Pass& pass) {
  if (images.scales != scales_) {
    kept_.clear();
    room_ = bytes_;
    scales_ = images.scales;
  }
  keys_ = keys_of(images.pixels);
  found_ = std::ranges::all_of(keys_, [this](const ContentHash& key) { return kept_.contains(key); });
  given_ = false;
  if (!found_) return trunk_->begin(images, pass);
  for (std::size_t n = 0; n < keys_.size(); ++n) {
    std::ranges::copy(kept_.at(keys_[n]), maps_.samples(static_cast<int>(n), 1).begin());
  }
}

std::optional<SampleRange> CachedTrunk::next_outputs() {
  if (!found_) {
    const auto samples = trunk_->next_outputs();
    if (!samples) keep();
    return samples;
  }
  if (std::exchange(given_, true)) return std::nullopt;
  return SampleRange{0, maps_.shape().n};
}

/// Keeps the maps of the batch that was computed.
void CachedTrunk::keep() {
  constexpr std::size_t kOverhead = 128;  // of an entry in the map, about
  const Tensor& maps = trunk_->output(0);
  if (maps_.shape() != maps.shape()) maps_ = Tensor(maps.shape());
  const std::size_t cost = maps.shape().sample_size() * sizeof(float) + kOverhead;
  for (std::size_t n = 0; n < keys_.size() && room_ >= cost; ++n) {
    const std::span<const float> row = maps.samples(static_cast<int>(n), 1);
    if (kept_.try_emplace(keys_[n], row.begin(), row.end()).second) room_ -= cost;
  }
}

void CachedTrunk::backward(const std::vector<const Tensor*>& gradients, SampleRange samples) {
  if (!found_) trunk_->backward(gradients, samples);
}

void CachedTrunk::update(const UpdateStep& step) {
  if (!found_) trunk_->update(step);
}

void CachedTrunk::begin_load(const std::vector<ShardState>& states) {
  kept_.clear();
  room_ = bytes_;
  trunk_->begin_load(states);
}

}  // namespace convoy
