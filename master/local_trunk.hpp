// The trunk in this process, on one device; maps stay in the device's layout from stage to stage.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "master/trunk.hpp"

namespace convoy {

class LocalTrunk : public Trunk {
 public:
  /// `device` must outlive the trunk. An empty `stages` hands the images on as they are. `input` is the shape of one
  /// batch.
  LocalTrunk(const std::vector<Stage>& stages, const Shape& input, Device& device);

  const Tensor& forward(const Tensor& images, const Pass& pass) override;
  void backward(const Tensor& gradient) override;
  double gradient_squares() override;
  void update(const UpdateStep& step) override;
  std::vector<ShardState> snapshot() override;
  void begin_snapshot() override { begun_ = snapshot(); }
  std::optional<std::vector<ShardState>> take_snapshot() override { return std::exchange(begun_, std::nullopt); }
  void load(const std::vector<ShardState>& states) override;
  std::vector<MemberTime> take_times() override;

 private:
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<DeviceTensor> input_;
  std::unique_ptr<DeviceTensor> gradient_;
  Tensor maps_;
  double compute_ = 0.0;
  std::optional<std::vector<ShardState>> begun_;  ///< a snapshot
};

}  // namespace convoy
