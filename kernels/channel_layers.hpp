// The channel layers of a stage (activations, pooling, dropout) by plain loops over NCHW, forward and backward.
#pragma once

#include <vector>

#include "core/stage.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// All layers after a stage's convolution, for one shard. Samples are independent, so that callers may run ranges of
/// them on several threads.
template <class T>
class ChannelLayers {
 public:
  ChannelLayers(const Stage& stage, FilterRange filters, int batch);

  /// The convolution's output, to be filled before forward: (batch, filters.count, rows, columns).
  BasicTensor<T>& input() { return values_.front(); }
  const BasicTensor<T>& output() const { return values_.back(); }
  /// The stage's output gradient, to be filled before backward.
  BasicTensor<T>& output_gradient() { return slopes_.back(); }
  const BasicTensor<T>& input_gradient() const { return slopes_.front(); }

  /// Samples first .. last - 1.
  void forward(int first, int last, const Pass& pass);
  void backward(int first, int last);

 private:
  void forward_layer(std::size_t i, int n, int c, const Pass& pass);
  void backward_layer(std::size_t i, int n, int c);

  std::vector<ChannelLayer> layers_;
  int first_filter_;
  std::vector<BasicTensor<T>> values_;        ///< values_[i] is the input of layer i
  std::vector<BasicTensor<T>> slopes_;        ///< gradients by values_
  std::vector<std::vector<int>> max_places_;  ///< for max pooling: place of each output's winner in its map
  std::vector<BasicTensor<T>> scales_;        ///< for dropout
};

}  // namespace convoy
