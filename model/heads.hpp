// The heads of a net. Each head reads one output of the trunk.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/head.hpp"

namespace convoy {

class Device;

/// The times of heads whose dense layers compute nothing, in seconds.
struct HeadPace {
  double fixed = 0.0;      ///< forward and backward, independent of the number of images
  double per_image = 0.0;  ///< forward and backward for each image
  double update = 0.0;     ///< weight gradients and update, for a batch
  std::function<void(double seconds)> spend;
};

/// Where heads are computed. A number of threads is a place on the host.
struct HeadPlace {
  // NOLINTNEXTLINE(google-explicit-constructor): most heads are computed on the host, and say with how many threads
  HeadPlace(int threads = 0, std::optional<HeadPace> pace = {}, Device* device = nullptr,
            std::function<void(const std::string&)> notice = {})
      : threads(threads), pace(std::move(pace)), device(device), notice(std::move(notice)) {}

  int threads;                   ///< of the host; 0: all cores
  std::optional<HeadPace> pace;  ///< dense layers only take the time of computing
  Device* device;                ///< computes the dense layers (model/device_dense.hpp); null: the host does
  /// Gets a sentence for each dense layer that the host computes although there is a device.
  std::function<void(const std::string&)> notice;
};

/// Returns how the dense layers of a head at this place are made.
MakeDense<float> dense_at(const HeadPlace& place);

class Heads {
 public:
  /// Makes the heads for batches of `batch` samples, with weights of zero. The place's device must outlive them.
  Heads(const Cut& cut, int batch, const HeadPlace& place = {});

  /// Computes the outputs of `samples`. `maps` are the trunk's outputs, one for each head. In training all heads run;
  /// in testing only the main head runs, and it reads only the last of the maps.
  void forward(const std::vector<const Tensor*>& maps, const Pass& pass, SampleRange samples);
  void forward(const std::vector<const Tensor*>& maps, const Pass& pass) { forward(maps, pass, heads_.front().all()); }
  /// Returns the loss of the main head. Prepares the gradients of all heads that ran forward, for backward.
  BatchLoss loss(const Labels& labels, int count, SampleRange samples);
  BatchLoss loss(const Labels& labels, int count) { return loss(labels, count, heads_.front().all()); }
  /// The outputs of the main head before its loss, (batch, classes).
  const Tensor& outputs() const { return *outputs_; }
  /// The gradients of the weighted sum of all losses by the trunk's outputs, one for each head.
  std::vector<const Tensor*> backward(SampleRange samples);
  /// Computes the gradients by weights and biases, after backward of the whole batch.
  void backward_weights();
  /// One step of the optimizer on all weights and biases.
  void update(const UpdateStep& step);
  /// The first dense layer that an update left with values that are not finite; empty if none is known. See
  /// Head::broken().
  std::string broken() const;
  /// The sum of squares of all gradients by weights and biases.
  double gradient_squares() const;

  /// The gradients of all dense layers, head by head, in the form of states without moments. Frozen layers have their
  /// weights there.
  std::vector<DenseState<float>> gradients() const;
  /// The states of all dense layers, head by head.
  std::vector<DenseState<float>> states() const;
  void load(const std::vector<DenseState<float>>& states);

 private:
  void take_half(SampleRange samples) const;

  int threads_;  ///< of the host
  std::optional<HeadPace> pace_;
  std::vector<Head<float>> heads_;
  bool all_ = false;  ///< whether all heads ran in the last forward, or only the main head
  const Tensor* outputs_ = nullptr;
};

/// Draws the initial weights of a net from the run's seed, as each layer's Initialisation says. By default they are
/// normal with variance 2 / fan_in in front of a ReLU (He et al., ICCV 2015) and 1 / fan_in elsewhere (LeCun et al.,
/// 1998). Biases are zero. The values are the same on every machine and for every plan.
std::vector<ShardState> initial_trunk(const Cut& cut, std::uint64_t seed);
std::vector<DenseState<float>> initial_heads(const Cut& cut, std::uint64_t seed);

}  // namespace convoy
