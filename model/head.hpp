// A head: what the master runs after the trunk. Dense layers, activations, dropout, and the loss.
#pragma once

#include <string>
#include <vector>

#include "core/shard_state.hpp"
#include "core/tensor.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Weights of one dense layer, with what belongs to them.
template <class T>
struct DenseState {
  std::string name;
  BasicParameter<T> weights;  ///< (units, inputs): row u holds what unit u multiplies its inputs with
  BasicParameter<T> bias;     ///< (units, 1)
};

/// The loss of some samples of a batch.
struct BatchLoss {
  double sum = 0.0;  ///< over the counted samples
  int correct = 0;   ///< samples whose largest output is that of their label
};

/// T is float in training and double in gradient checks.
template <class T>
class Head {
 public:
  /// For batches of `batch` samples; `moments`: tensors that the optimizer keeps for each parameter. Weights start at zero.
  /// `input_gradient`: whether anybody needs the gradient by the maps. Throws Error where a layer cannot be part of a head.
  Head(const CutHead& cut, int moments, int batch, bool input_gradient = true);

  // A batch may go through in parts, each forward, to its loss and backward before the next.

  SampleRange all() const { return {0, batch_}; }
  /// Samples of maps (batch, channels, height, width), which must live until backward_weights, to the outputs before the
  /// loss, (batch, classes). The result belongs to the head and holds until its next forward.
  const BasicTensor<T>& forward(const BasicTensor<T>& maps, const Pass& pass, SampleRange samples);
  const BasicTensor<T>& forward(const BasicTensor<T>& maps, const Pass& pass) { return forward(maps, pass, all()); }
  /// Loss of the last forward's outputs over those of its samples that are among the first `count` of the batch, without
  /// its weight, and its gradient for backward: that of the mean over the count samples. labels.size() >= count.
  BatchLoss loss(const std::vector<int>& labels, int count, SampleRange samples);
  BatchLoss loss(const std::vector<int>& labels, int count) { return loss(labels, count, all()); }
  /// Gradient by the maps, in their shape, of the mean loss times its weight, or zeros where nobody needs it: that of these
  /// samples is there. After loss().
  const BasicTensor<T>& backward(SampleRange samples);
  const BasicTensor<T>& backward() { return backward(all()); }
  /// The gradients by weights and biases, when all of the batch went backward.
  void backward_weights();
  void update(const UpdateStep& step);
  /// Of all gradients by weights and biases.
  double gradient_squares() const;

  std::vector<DenseState<T>>& states() { return states_; }
  const std::vector<DenseState<T>>& states() const { return states_; }
  /// Gradients by weights and bias of dense layer i (of states()), of the last backward_weights.
  const BasicTensor<T>& weight_gradient(std::size_t i) const { return gradients_[i].weights; }
  const BasicTensor<T>& bias_gradient(std::size_t i) const { return gradients_[i].bias; }

 private:
  struct Step {
    LayerSpec spec;
    int inputs = 0;  ///< elements of one sample
    int outputs = 0;
    int dense = -1;  ///< index into states_
  };
  struct DenseGradient {
    BasicTensor<T> weights;
    BasicTensor<T> bias;
  };

  void add_step(const Layer& layer, int& features);
  /// The input of step `index`; behind the last, what goes into the loss.
  const BasicTensor<T>& value(std::size_t index) const { return index == 0 ? *maps_ : outputs_[index - 1]; }
  void forward_step(std::size_t index, const Pass& pass, SampleRange samples);
  void backward_step(std::size_t index, SampleRange samples);

  int batch_;
  int moments_;
  bool input_gradient_;
  bool softmax_ = true;
  double label_smoothing_ = 0.0;
  double loss_weight_ = 1.0;
  std::vector<Step> steps_;
  std::vector<DenseState<T>> states_;
  std::vector<DenseGradient> gradients_;
  const BasicTensor<T>* maps_ = nullptr;  ///< the last forward's
  std::vector<BasicTensor<T>> outputs_;   ///< of each step
  std::vector<BasicTensor<T>> slopes_;    ///< gradients of the loss by value(i)
  std::vector<BasicTensor<T>> scales_;    ///< dropout's factors, empty for other steps
};

}  // namespace convoy
