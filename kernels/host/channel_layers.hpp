// The channel layers of a stage (activations, pooling, dropout, batch norm, additions) as plain loops over NCHW
// tensors, forward and backward.
#pragma once

#include <functional>
#include <vector>

#include "kernels/host/host_tensor.hpp"

namespace convoy {

/// Calls work(first, last) for disjoint ranges that cover 0 .. count - 1, on any number of threads.
using Splitter = std::function<void(int count, const std::function<void(int first, int last)>& work)>;

/// A Splitter that does all work on the calling thread.
inline void serially(int count, const std::function<void(int first, int last)>& work) { work(0, count); }

/// All layers after a stage's convolution, for one shard.
template <class T>
class ChannelLayers {
 public:
  /// `parameters` are the shard's and must outlive the layers; null for a stage without batch norm.
  ChannelLayers(const ShardSpec& spec, HostParameters<T>* parameters);

  /// The convolution's output, (batch, filters.count, rows, columns), which must be filled before forward.
  BasicTensor<T>& input() { return values_.front(); }
  const BasicTensor<T>& output() const { return values_.back(); }
  /// The gradient with respect to the stage's output, which must be filled before backward.
  BasicTensor<T>& output_gradient() { return slopes_.back(); }
  const BasicTensor<T>& input_gradient() const { return slopes_.front(); }

  /// Sets the maps that Add layer number `index` adds, of shape added_shapes()[index]. They must outlive the layers.
  void connect(std::size_t index, const BasicTensor<T>& maps) { added_.at(index) = &maps; }
  /// Returns the gradient with respect to the maps that Add layer number `index` adds, for the samples of the last
  /// backward.
  const BasicTensor<T>& added_gradient(std::size_t index) const { return slopes_[add_layers_.at(index)]; }

  /// Computes a micro-batch; micro-batches come in ascending order. Returns the samples of the output that are ready
  /// now (ShardSpec::ready_after_forward).
  SampleRange forward(SampleRange samples, const Pass& pass, const Splitter& split);
  /// Computes a micro-batch of the gradient with respect to the input. Returns the samples that are ready now
  /// (ShardSpec::read_by_backward).
  SampleRange backward(SampleRange samples, const Splitter& split);

 private:
  /// The statistics of a batch by channel, which backward needs.
  struct Moments {
    std::vector<double> mean;
    std::vector<double> inverse;  ///< 1 / standard deviation
  };

  void forward_layer(std::size_t i, int n, int c, const Pass& pass);
  void backward_layer(std::size_t i, int n, int c);
  void normalise(std::size_t i, int c, const Pass& pass);
  void normalise_backward(std::size_t i, int c);
  bool is_norm(std::size_t i) const { return std::holds_alternative<BatchNorm>(layers_[i]); }
  std::span<HostParameter<T>, 4> norm(std::size_t i) { return parameters_->batch_norm(norm_numbers_[i]); }

  std::vector<ChannelLayer> layers_;
  ShardSpec spec_;
  HostParameters<T>* parameters_;
  std::vector<BasicTensor<T>> values_;        ///< values_[i] is the input of layer i
  std::vector<BasicTensor<T>> slopes_;        ///< gradients with respect to values_
  std::vector<std::vector<int>> max_places_;  ///< for max pooling: index of each output's maximum in its input map
  std::vector<BasicTensor<T>> scales_;        ///< for dropout
  std::vector<Moments> moments_;              ///< for batch norm
  std::vector<std::size_t> norm_numbers_;     ///< for batch norm: its number among the stage's batch norms
  std::vector<std::size_t> add_layers_;       ///< for each Add layer: its number among the layers
  std::vector<const BasicTensor<T>*> added_;  ///< for each Add layer: the maps that it adds
};

}  // namespace convoy
