// A frozen trunk that keeps the maps of the images that it has seen: training of the layers behind it computes each
// image once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/content_hash.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// A trunk in front of another one, whose maps it keeps. A batch is computed only if some of its images were not kept.
/// An image is recognised by a hash of 128 bits of its pixels, so images that are changed at random are computed each
/// time.
class CachedTrunk : public Trunk {
 public:
  /// Returns why maps of these stages cannot be kept; empty if they can. Nothing may train or draw at random in them,
  /// and one head must read them.
  static std::string obstacle(const std::vector<Stage>& stages);

  /// Keeps as many maps as fit into `bytes`. The stages of `trunk` must have no obstacle.
  CachedTrunk(std::unique_ptr<Trunk> trunk, std::size_t bytes);

  void begin(const Images& images, const Pass& pass) override;
  std::optional<SampleRange> next_outputs() override;
  bool outputs_ready() const override { return found_ || trunk_->outputs_ready(); }
  std::size_t output_count() const override { return 1; }
  const Tensor& output(std::size_t number) const override { return found_ ? maps_ : trunk_->output(number); }
  using Trunk::backward;
  void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) override;
  double gradient_squares() override { return found_ ? 0.0 : trunk_->gradient_squares(); }
  void update(const UpdateStep& step) override;
  void settle() override { trunk_->settle(); }
  bool settled() const override { return trunk_->settled(); }
  bool poll() override { return trunk_->poll(); }
  void wait() override { trunk_->wait(); }
  std::optional<Broken> broken() const override { return trunk_->broken(); }
  std::vector<ShardState> snapshot() override { return trunk_->snapshot(); }
  void begin_snapshot() override { trunk_->begin_snapshot(); }
  std::optional<std::vector<ShardState>> take_snapshot() override { return trunk_->take_snapshot(); }
  void begin_gradients() override { trunk_->begin_gradients(); }
  /// Forgets all maps.
  void begin_load(const std::vector<ShardState>& states) override;
  std::vector<MemberTime> take_times() override { return trunk_->take_times(); }

 private:
  struct Hash {
    std::size_t operator()(const ContentHash& key) const { return key.low; }
  };

  static std::vector<ContentHash> keys_of(const Pixels& pixels);
  void keep();

  std::unique_ptr<Trunk> trunk_;
  std::size_t room_;   ///< bytes that are left for maps
  std::size_t bytes_;  ///< room_ before anything was kept
  std::unordered_map<ContentHash, std::vector<float>, Hash> kept_;
  std::vector<ChannelScale> scales_;  ///< by which the images of the kept maps were normalised

  // The current batch.
  std::vector<ContentHash> keys_;
  bool found_ = false;  ///< whether all its maps were kept; maps_ has them then
  bool given_ = false;  ///< whether next_outputs() has returned them
  Tensor maps_;
};

}  // namespace convoy
