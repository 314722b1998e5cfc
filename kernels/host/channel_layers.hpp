// The channel layers of a stage (activations, pooling, dropout, batch norm) by plain loops over NCHW, forward and backward.
#pragma once

#include <functional>
#include <vector>

#include "kernels/host/host_tensor.hpp"

namespace convoy {

/// Calls work(first, last) for parts of 0 .. count - 1 that cover it, on as many threads as it likes.
using Splitter = std::function<void(int count, const std::function<void(int first, int last)>& work)>;

inline void serially(int count, const std::function<void(int first, int last)>& work) { work(0, count); }

/// All layers after a stage's convolution, for one shard.
template <class T>
class ChannelLayers {
 public:
  /// `parameters`: the shard's, which must outlive the layers; null for a stage without batch norm.
  ChannelLayers(const Stage& stage, FilterRange filters, int batch, HostParameters<T>* parameters);

  /// The convolution's output, to be filled before forward: (batch, filters.count, rows, columns).
  BasicTensor<T>& input() { return values_.front(); }
  const BasicTensor<T>& output() const { return values_.back(); }
  /// The stage's output gradient, to be filled before backward.
  BasicTensor<T>& output_gradient() { return slopes_.back(); }
  const BasicTensor<T>& input_gradient() const { return slopes_.front(); }

  /// What the Add layer number `index` adds: added_shapes(). Must live while the layers do.
  void connect(std::size_t index, const BasicTensor<T>& maps) { added_.at(index) = &maps; }
  /// The gradient by that, of the samples of the last backward.
  const BasicTensor<T>& added_gradient(std::size_t index) const { return slopes_[add_layers_.at(index)]; }

  /// A micro-batch, in ascending order. Returns the samples of the output that are there now: those given; with batch norm
  /// none until the last, and then all.
  SampleRange forward(SampleRange samples, const Pass& pass, const Splitter& split);
  /// The same of the gradient by the input: with batch norm all after the first micro-batch, and none afterwards.
  SampleRange backward(SampleRange samples, const Splitter& split);

 private:
  /// What a batch norm keeps of a batch, by channel.
  struct Moments {
    std::vector<double> mean;
    std::vector<double> inverse;  ///< of the standard deviation
  };

  void forward_layer(std::size_t i, int n, int c, const Pass& pass);
  void backward_layer(std::size_t i, int n, int c);
  void normalise(std::size_t i, int c, const Pass& pass);
  void normalise_backward(std::size_t i, int c);
  bool is_norm(std::size_t i) const { return std::holds_alternative<BatchNorm>(layers_[i]); }
  std::span<HostParameter<T>, 4> norm(std::size_t i) { return parameters_->batch_norm(norm_numbers_[i]); }

  std::vector<ChannelLayer> layers_;
  int first_filter_;
  int batch_;
  HostParameters<T>* parameters_;
  std::vector<BasicTensor<T>> values_;        ///< values_[i] is the input of layer i
  std::vector<BasicTensor<T>> slopes_;        ///< gradients by values_
  std::vector<std::vector<int>> max_places_;  ///< for max pooling: place of each output's winner in its map
  std::vector<BasicTensor<T>> scales_;        ///< for dropout
  std::vector<Moments> moments_;              ///< for batch norm
  std::vector<std::size_t> norm_numbers_;     ///< of batch norms, counted through the stage
  std::vector<std::size_t> add_layers_;       ///< of each Add, the number among the layers
  std::vector<const BasicTensor<T>*> added_;  ///< by each Add
  bool has_norm_ = false;
};

}  // namespace convoy
