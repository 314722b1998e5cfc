// The trunk in this process, on one device: any graph of stages. Maps stay in the device's layout from stage to stage.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "train/trunk.hpp"

namespace convoy {

class LocalTrunk : public Trunk {
 public:
  /// `device` must outlive the trunk. An empty `stages` hands the images on as they are. `input` is the shape of one
  /// batch.
  LocalTrunk(const std::vector<Stage>& stages, const Shape& input, Device& device);

  void begin(const Tensor& images, const Pass& pass) override;
  std::optional<SampleRange> next_outputs() override;
  std::size_t output_count() const override { return maps_.size(); }
  const Tensor& output(std::size_t number) const override { return maps_[number]; }
  using Trunk::backward;
  void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) override;
  double gradient_squares() override;
  void update(const UpdateStep& step) override;
  std::vector<ShardState> snapshot() override;
  void begin_snapshot() override { begun_ = snapshot(); }
  std::optional<std::vector<ShardState>> take_snapshot() override { return std::exchange(begun_, std::nullopt); }
  void load(const std::vector<ShardState>& states) override;
  std::vector<MemberTime> take_times() override;

 private:
  /// Sources that are not all of one stage's maps, put together for those that read them.
  struct Joined {
    Sources from;
    std::unique_ptr<DeviceTensor> maps;
    std::size_t reader = 0;  ///< the first stage
    bool done = false;       ///< in the pass at hand
  };
  /// What a stage's input, or one of its Add layers, reads.
  struct Read {
    Sources from;
    int joined = -1;  ///< index into joined_; -1: all of one stage's maps, or of the images
  };
  /// A read of some of a stage's maps.
  struct Use {
    std::size_t stage = 0;
    std::size_t read = 0;
    FilterRange channels;  ///< of the maps
    int first = 0;         ///< of these channels in what is read
  };

  void join(Joined& joined);
  void find_reads(const std::vector<Stage>& stages);
  const DeviceTensor& maps_of(int stage) const;
  const DeviceTensor& read(const Read& read) const;
  const DeviceTensor& gradient_by(const Use& use) const;
  const DeviceTensor& gradient_of(std::size_t stage);

  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::vector<Read>> reads_;  ///< of each stage
  std::vector<std::vector<Use>> uses_;    ///< of each stage's maps, the last stage first
  std::vector<Joined> joined_;
  std::unique_ptr<DeviceTensor> input_;
  std::vector<const DeviceTensor*> outputs_;              ///< of each stage, of the last forward
  std::vector<const DeviceTensor*> input_gradients_;      ///< of each stage, of the last backward
  std::vector<std::unique_ptr<DeviceTensor>> gradients_;  ///< by the maps of stages with several uses, and of outputs
  std::vector<std::size_t> heads_;                        ///< outputs_of(stages)
  std::vector<bool> tested_;                              ///< of each stage, whether the last output takes it
  std::vector<Tensor> maps_;                              ///< of the outputs, on the host
  bool given_ = false;                                    ///< the outputs of the batch at hand
  double compute_ = 0.0;
  std::optional<std::vector<ShardState>> begun_;  ///< a snapshot
};

}  // namespace convoy
