// A trunk without a plan, which runs one stage after another on one device: what nodes, alone and together, are
// compared with.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "train/trunk.hpp"

namespace convoy {

class PlainTrunk : public Trunk {
 public:
  /// `input` is the shape of one batch of images. Without stages, the outputs are the images. `device` must outlive the
  /// trunk.
  PlainTrunk(const std::vector<Stage>& stages, const Shape& input, Device& device);

  void begin(const Images& images, const Pass& pass) override;
  /// begin() with images that are normalised already, (batch, channels, height, width).
  void begin(const Tensor& images, const Pass& pass);
  std::optional<SampleRange> next_outputs() override;
  std::size_t output_count() const override { return maps_.size(); }
  const Tensor& output(std::size_t number) const override { return maps_[number]; }
  using Trunk::backward;
  void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) override;
  double gradient_squares() override;
  void update(const UpdateStep& step) override;
  std::optional<Broken> broken() const override;
  std::vector<ShardState> snapshot() override;
  void begin_snapshot(bool moments) override;
  void begin_changes(const std::vector<ShardState>& from, bool moments) override;
  std::optional<std::vector<ShardState>> take_snapshot() override { return std::exchange(begun_, std::nullopt); }
  void begin_gradients() override;
  void begin_load(const std::vector<ShardState>& states) override;
  std::vector<MemberTime> take_times() override { return {}; }

 private:
  /// A tensor that is assembled from several sources, or from some channels of one source.
  struct Joined {
    Sources from;
    std::unique_ptr<DeviceTensor> maps;
    std::size_t reader = 0;  ///< the first stage that reads it
    bool done = false;       ///< whether it was assembled in the current pass
  };
  /// The sources of a stage's input, or of one of its Add layers.
  struct Read {
    Sources from;
    int joined = -1;  ///< index into joined_; -1 if it reads all maps of one stage, or the images
  };
  /// A use of some of a stage's maps by a later stage.
  struct Use {
    std::size_t stage = 0;  ///< the stage that reads the maps
    std::size_t read = 0;   ///< index into its reads_
    FilterRange channels;   ///< the channels of the maps that are read
    int first = 0;          ///< position of these channels in the assembled input
  };

  void join(Joined& joined);
  void find_reads(const std::vector<Stage>& stages);
  const DeviceTensor& maps_of(int stage) const;
  const DeviceTensor& read(const Read& read) const;
  const DeviceTensor& gradient_by(const Use& use) const;
  const DeviceTensor& gradient_of(std::size_t stage);

  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::vector<Read>> reads_;  ///< by stage
  std::vector<std::vector<Use>> uses_;    ///< by stage whose maps are read; the last reading stage comes first
  std::vector<Joined> joined_;
  std::unique_ptr<DeviceTensor> input_;
  Normaliser normaliser_;
  Tensor images_;                                     ///< normalised
  std::vector<const DeviceTensor*> outputs_;          ///< maps of the last forward pass, by stage
  std::vector<const DeviceTensor*> input_gradients_;  ///< gradients of the last backward pass, by stage
  /// By stage, the gradient with respect to its maps, for stages with several uses and for outputs.
  std::vector<std::unique_ptr<DeviceTensor>> gradients_;
  std::vector<std::size_t> heads_;                ///< outputs_of(stages)
  std::vector<bool> tested_;                      ///< by stage, whether the last output depends on it
  std::vector<Tensor> maps_;                      ///< maps of the outputs, on the host
  long step_ = 0;                                 ///< of the last training pass
  long updated_ = 0;                              ///< the step of the last update
  bool given_ = false;                            ///< whether next_outputs() has returned the current batch
  std::optional<std::vector<ShardState>> begun_;  ///< the snapshot of begin_snapshot()
};

}  // namespace convoy
