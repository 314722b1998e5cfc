#include "train/cached_trunk.hpp"

#include <algorithm>
#include <utility>

namespace convoy {

std::string CachedTrunk::obstacle(const std::vector<Stage>& stages) {
  if (stages.empty()) return "the net has no convolution";
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
  return outputs_of(stages).size() > 1 ? "several losses read the maps of its convolutions" : "";
}

void CachedTrunk::begin(const Images& images, const Pass& pass) {
  kept_.use(images.scales);
  keys_.clear();
  for (int n = 0; n < images.shape().n; ++n) keys_.push_back(content_hash(images.pixels.samples(n, 1)));
  found_ = look_up();
  given_ = false;
  if (!found_) return trunk_->begin(images, pass);
  // Slaves that compute nothing still join, leave and die.
  while (trunk_->poll()) continue;
}

/// Copies the maps of the batch. Returns false if some were not kept.
bool CachedTrunk::look_up() {
  shape_.n = static_cast<int>(keys_.size());
  if (maps_.shape() != shape_) maps_ = Tensor(shape_);
  for (int n = 0; n < shape_.n; ++n) {
    const auto maps = kept_.find(keys_[static_cast<std::size_t>(n)]);
    if (!maps) return false;
    std::ranges::copy(*maps, maps_.samples(n, 1).begin());
  }
  return true;
}

std::optional<SampleRange> CachedTrunk::next_outputs() {
  if (found_) {
    if (std::exchange(given_, true)) return std::nullopt;
    return SampleRange{0, maps_.shape().n};
  }
  const auto samples = trunk_->next_outputs();
  if (!samples) {
    const Tensor& maps = trunk_->output(0);
    for (int n = 0; n < shape_.n; ++n) kept_.keep(keys_[static_cast<std::size_t>(n)], maps.samples(n, 1));
  }
  return samples;
}

void CachedTrunk::backward(const std::vector<const Tensor*>& gradients, SampleRange samples) {
  if (!found_) trunk_->backward(gradients, samples);
}

void CachedTrunk::update(const UpdateStep& step) {
  if (!found_) trunk_->update(step);
}

void CachedTrunk::begin_load(const std::vector<ShardState>& states) {
  kept_.use(states);
  trunk_->begin_load(states);
}

}  // namespace convoy
