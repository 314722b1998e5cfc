// The trunk in this process, on one device: the only node of a plan of one member.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "exchange/node.hpp"
#include "train/trunk.hpp"

namespace convoy {

class LocalTrunk : public Trunk {
 public:
  /// `input` is the shape of one batch of images. Without stages, the outputs are the normalised images. `device` must
  /// outlive the trunk. Throws Error if the device cannot hold the shards.
  LocalTrunk(const std::vector<Stage>& stages, const Shape& input, Device& device);

  void begin(const Images& images, const Pass& pass) override;
  std::optional<SampleRange> next_outputs() override;
  std::size_t output_count() const override { return outputs_; }
  const Tensor& output(std::size_t number) const override { return node_ ? node_->output(number) : images_; }
  using Trunk::backward;
  void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) override;
  double gradient_squares() override { return node_ ? node_->gradient_squares() : 0.0; }
  void update(const UpdateStep& step) override;
  std::optional<Broken> broken() const override;
  std::vector<ShardState> snapshot() override;
  void begin_snapshot(bool moments) override;
  void begin_changes(const std::vector<ShardState>& from, bool moments) override;
  std::optional<std::vector<ShardState>> take_snapshot() override { return std::exchange(begun_, std::nullopt); }
  void begin_gradients() override;
  void begin_load(const std::vector<ShardState>& states) override;
  std::vector<MemberTime> take_times() override;

 private:
  void run();
  std::size_t stages() const { return node_ ? node_->trunk().size() : 0; }
  FilterRange all_filters(std::size_t stage) const { return {0, node_->trunk()[stage].conv.filters}; }

  Shape shape_;               ///< of the images
  std::optional<Node> node_;  ///< nothing without stages
  std::size_t outputs_ = 1;
  Normaliser normaliser_;
  Tensor images_;                                 ///< normalised, where there are no stages
  long step_ = 0;                                 ///< of the last training pass
  long updated_ = 0;                              ///< the step of the last update
  bool given_ = false;                            ///< whether next_outputs() has returned the current batch
  std::optional<std::vector<ShardState>> begun_;  ///< the snapshot of begin_snapshot()
};

}  // namespace convoy
