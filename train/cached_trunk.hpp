// A frozen trunk whose maps are kept, so that training of the layers behind it computes each image once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nets/graph/net.hpp"
#include "train/kept_maps.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// A trunk in front of another one, on this machine or on slaves, whose maps it keeps. A batch is computed only if the
/// maps of some of its images were not kept, so images that are changed at random are computed each time.
class CachedTrunk : public Trunk {
 public:
  /// Returns why maps of these stages cannot be kept; empty if they can. Nothing may train or draw at random in them,
  /// and one head must read them.
  static std::string obstacle(const std::vector<Stage>& stages);

  /// The stages of `trunk` must have no obstacle; `maps` is the shape of an image's maps behind them. `kept` must
  /// outlive the trunk, and may serve the next one.
  CachedTrunk(std::unique_ptr<Trunk> trunk, const FeatureShape& maps, KeptMaps& kept)
      : trunk_(std::move(trunk)), shape_{0, maps.channels, maps.height, maps.width}, kept_(kept) {}

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
  void begin_snapshot(bool moments) override { trunk_->begin_snapshot(moments); }
  void begin_changes(const std::vector<ShardState>& from, bool moments) override {
    trunk_->begin_changes(from, moments);
  }
  std::optional<std::vector<ShardState>> take_snapshot() override { return trunk_->take_snapshot(); }
  void begin_gradients() override { trunk_->begin_gradients(); }
  void begin_load(const std::vector<ShardState>& states) override;
  void carry_states_in(NumberType type) override { trunk_->carry_states_in(type); }
  std::vector<MemberTime> take_times() override { return trunk_->take_times(); }

 private:
  bool look_up();

  std::unique_ptr<Trunk> trunk_;
  Shape shape_;  ///< of the maps of an image
  KeptMaps& kept_;

  // The current batch.
  std::vector<ContentHash> keys_;
  bool found_ = false;  ///< whether all its maps were kept; maps_ has them then
  bool given_ = false;  ///< whether next_outputs() has returned them
  Tensor maps_;
};

}  // namespace convoy
