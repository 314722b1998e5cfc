// The channel layers of a stage (activations, pooling, dropout, batch norm, sums, products) as plain loops over NCHW
// tensors, forward and backward.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "kernels/host/batch_norm.hpp"

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

  /// Sets the maps that Add or Multiply layer number `index` takes in, of shape added_shapes()[index]. They must
  /// outlive the layers.
  void connect(std::size_t index, const BasicTensor<T>& maps) { added_.at(index) = &maps; }
  /// Returns the gradient with respect to the maps that this layer takes in, for the samples of the last backward.
  const BasicTensor<T>& added_gradient(std::size_t index) const {
    const std::size_t i = add_layers_.at(index);
    return std::holds_alternative<Multiply>(layers_[i]) ? factor_slopes_[i] : slopes_[i];
  }

  /// Computes a micro-batch; micro-batches come in ascending order. Returns the samples of the output that are ready
  /// now (ShardSpec::ready_after_forward).
  SampleRange forward(SampleRange samples, const Pass& pass, const Splitter& split);
  /// Computes a micro-batch of the gradient with respect to the input. Returns the samples that are ready now
  /// (ShardSpec::read_by_backward).
  SampleRange backward(SampleRange samples, const Splitter& split);

  /// The same as the functions of Shard. The output is ready after the last normalise, and the input gradient after the
  /// last take_slopes.
  std::vector<float> moments(const Splitter& split);
  void normalise(std::span<const double> joint, const Splitter& split);
  std::vector<float> slopes(const Splitter& split);
  void take_slopes(std::span<const double> joint, const Splitter& split);

 private:
  using Norm = HostBatchNorm<T>;

  void run(SampleRange samples, const Splitter& split);
  void run_back(SampleRange samples, const Splitter& split);
  /// Returns one channel of one sample of the maps that a layer takes in.
  const T* taken_in(std::size_t i, int n, int c) const;
  void forward_layer(std::size_t i, int n, int c);
  void backward_layer(std::size_t i, int n, int c);
  void normalise(std::size_t i, int c);
  bool is_norm(std::size_t i) const { return std::holds_alternative<BatchNorm>(layers_[i]); }
  bool is_frozen(std::size_t i) const { return std::get<BatchNorm>(layers_[i]).frozen(); }
  /// Whether the current pass stops at a layer: a batch norm whose statistics are joined.
  bool stops_at(std::size_t i) const { return joins_ && is_norm(i) && !is_frozen(i); }
  /// Calls work(c) for each channel of the maps at layer i.
  void for_channels(std::size_t i, const Splitter& split, const std::function<void(int c)>& work) const;

  std::vector<ChannelLayer> layers_;
  ShardSpec spec_;
  std::vector<BasicTensor<T>> values_;         ///< values_[i] is the input of layer i
  std::vector<BasicTensor<T>> slopes_;         ///< gradients with respect to values_
  std::vector<std::vector<int>> max_places_;   ///< for max pooling: index of each output's maximum in its input map
  std::vector<BasicTensor<T>> scales_;         ///< for dropout
  std::map<std::size_t, Norm> norms_;          ///< by the number of the layer
  std::vector<BasicTensor<T>> factor_slopes_;  ///< for Multiply: the gradient with respect to the maps that it takes in
  std::vector<std::size_t> add_layers_;        ///< for each Add and Multiply layer: its number among the layers
  std::vector<const BasicTensor<T>*> added_;   ///< for each of them: the maps that it takes in
  Pass pass_;                                  ///< of the last forward
  bool joins_ = false;    ///< whether that pass stops at batch norms, for statistics that shards join
  std::size_t next_ = 0;  ///< the layer that runs next; in the backward pass the layer before it runs next
};

}  // namespace convoy
