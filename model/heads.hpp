// All heads of a net, each on one output of the trunk.
#pragma once

#include "model/head.hpp"

namespace convoy {

class Heads {
 public:
  /// For batches of `batch` samples, computed by so many threads (0: all cores). Weights start at zero.
  Heads(const Cut& cut, int batch, int threads = 0);

  /// `maps` are the trunk's outputs, one for each head. In training all heads go forward on these samples of them; in testing
  /// the main head alone does, and reads the last of the maps alone.
  void forward(const std::vector<const Tensor*>& maps, const Pass& pass, SampleRange samples);
  void forward(const std::vector<const Tensor*>& maps, const Pass& pass) { forward(maps, pass, heads_.front().all()); }
  /// That of the main head. Finds the gradients of all that went forward, for backward.
  BatchLoss loss(const std::vector<int>& labels, int count, SampleRange samples);
  BatchLoss loss(const std::vector<int>& labels, int count) { return loss(labels, count, heads_.front().all()); }
  /// Outputs of the main head before its loss, (batch, classes).
  const Tensor& outputs() const { return *outputs_; }
  /// Gradients of the weighted sum of all losses by the trunk's outputs, for Trunk::backward.
  std::vector<const Tensor*> backward(SampleRange samples);
  /// The gradients by the weights, when all of the batch went backward.
  void backward_weights();
  void update(const UpdateStep& step);
  double gradient_squares() const;

  /// Of all dense layers, head after head.
  std::vector<DenseState<float>> states() const;
  void load(const std::vector<DenseState<float>>& states);

 private:
  int threads_;
  std::vector<Head<float>> heads_;
  bool all_ = false;  ///< went forward
  const Tensor* outputs_ = nullptr;
};

/// Draws the initial weights of a net from its seed: normal with variance 2 / fan_in in front of a ReLU (He et al.
/// 2015), 1 / fan_in elsewhere (LeCun et al. 1998); biases zero. The same on every machine and for every split.
std::vector<ShardState> initial_trunk(const Cut& cut, std::uint64_t seed);
std::vector<DenseState<float>> initial_heads(const Cut& cut, std::uint64_t seed);

}  // namespace convoy
