// Training steps of a net on this machine, with random images, for measurements.
#pragma once

#include <string>
#include <vector>

#include "devices/registry.hpp"
#include "nets/graph/net.hpp"
#include "train/local_trunk.hpp"
#include "train/train.hpp"

namespace convoy {

class TrainingSteps {
 public:
  /// Reads the net file with its settings `set`, and compiles its stages for `batch` images.
  TrainingSteps(const std::string& net, std::vector<std::string> set, int batch, const std::string& device,
                const DeviceOptions& options);

  /// Does a step: forward pass, loss, backward pass, update. Returns the sum of the images' losses when the device has
  /// finished.
  double step();
  /// Tests the images. Returns the sum of their losses.
  double test();

  const Net& net() const { return net_; }
  const std::vector<Stage>& trunk() const { return parts_.trunk; }
  const Device& device() const { return *device_; }

 private:
  Net net_;
  Cut parts_;
  std::unique_ptr<Device> device_;
  Images images_;
  LocalTrunk trunk_;
  NetLearner learner_;
  std::vector<int> labels_;
};

}  // namespace convoy
