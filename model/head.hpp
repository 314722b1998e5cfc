// A head: the dense layers, activations, dropout and loss that the master runs after the trunk.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/shard_state.hpp"
#include "core/tensor.hpp"
#include "model/labels.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// The weights and bias of one dense layer, with the optimizer's moments.
template <class T>
struct DenseState {
  std::string name;
  BasicParameter<T> weights;  ///< (units, inputs)
  BasicParameter<T> bias;     ///< (units, 1)
};

/// The loss of some samples of a batch.
struct BatchLoss {
  double sum = 0.0;  ///< sum over the counted samples
  int correct = 0;   ///< number of samples whose largest output is their label's
};

/// Returns the class that the outputs of a sample name: the first of the largest, or -1 where an output is NaN.
template <class T>
int index_of_largest(std::span<const T> outputs);

/// A head on the host. T is float in training and double in gradient checks. A batch may pass through in parts: each
/// part goes through forward, loss and backward before the next part.
template <class T>
class Head {
 public:
  /// Makes a head for batches of `batch` samples, with weights of zero. `moments` is the number of tensors that the
  /// optimizer keeps for each parameter. Without `input_gradient`, backward does not compute the gradient by the maps.
  /// Throws Error if a layer cannot be part of a head.
  Head(const CutHead& cut, int moments, int batch, bool input_gradient = true);

  /// From now on dense layers compute nothing: their outputs and gradients are zeros, and their weights stay.
  void stop_computing() { computes_ = false; }

  SampleRange all() const { return {0, batch_}; }
  /// Computes the outputs before the loss, (batch, classes), of `samples` of the maps (batch, channels, height, width).
  /// The maps must live until backward_weights. The result belongs to the head and is valid until the next forward.
  const BasicTensor<T>& forward(const BasicTensor<T>& maps, const Pass& pass, SampleRange samples);
  const BasicTensor<T>& forward(const BasicTensor<T>& maps, const Pass& pass) { return forward(maps, pass, all()); }
  /// Returns the unweighted loss of the last forward's outputs, over those of `samples` that are among the first
  /// `count` of the batch. Prepares for backward the gradient of the mean over `count` samples. There must be at least `count`
  /// labels. With a teacher's probabilities the loss is taught_loss(), in which softmax_cross_entropy is the hard loss.
  BatchLoss loss(const Labels& labels, int count, SampleRange samples);
  BatchLoss loss(const Labels& labels, int count) { return loss(labels, count, all()); }
  /// Returns the gradient of the mean loss, times the loss's weight, by the maps, in the maps' shape; `samples` of it
  /// are filled in. Without input_gradient the result is zero. Call it after loss().
  const BasicTensor<T>& backward(SampleRange samples);
  const BasicTensor<T>& backward() { return backward(all()); }
  /// Computes the gradients by weights and biases, after backward of the whole batch.
  void backward_weights();
  /// One step of the optimizer on all weights and biases.
  void update(const UpdateStep& step);
  /// The first dense layer that an update left with values that are not finite; empty if there is none.
  const std::string& broken() const { return broken_; }
  void forget_broken() { broken_.clear(); }
  /// The sum of squares of all gradients by weights and biases. Those of frozen layers count as 0.
  double gradient_squares() const;

  std::vector<DenseState<T>>& states() { return states_; }
  const std::vector<DenseState<T>>& states() const { return states_; }
  /// Whether dense layer i of states() is frozen: it has no moments, and its gradients are 0.
  bool frozen(std::size_t i) const { return gradients_[i].rate == 0.0F; }
  /// The gradients by the weights and bias of dense layer i of states(), as of the last backward_weights.
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
    float rate = 1.0F;  ///< factor of the learning rate; 0: the layer is frozen
  };

  void add_step(const Layer& layer, int& features);
  /// The input of step `index`; for the index after the last step, the input of the loss.
  const BasicTensor<T>& value(std::size_t index) const { return index == 0 ? *maps_ : outputs_[index - 1]; }
  void forward_step(std::size_t index, const Pass& pass, SampleRange samples);
  void backward_step(std::size_t index, SampleRange samples);

  int batch_;
  int moments_;
  bool input_gradient_;
  bool computes_ = true;  ///< whether dense layers compute
  bool softmax_ = true;
  double label_smoothing_ = 0.0;
  std::vector<float> class_weights_;  ///< empty: all are 1
  double loss_weight_ = 1.0;
  std::vector<Step> steps_;
  std::size_t first_trained_ =
      0;  ///< the first step with weights that are trained; behind the last one if there is none
  std::vector<DenseState<T>> states_;
  std::vector<DenseGradient> gradients_;
  std::string broken_;
  const BasicTensor<T>* maps_ = nullptr;  ///< input of the last forward
  std::vector<BasicTensor<T>> outputs_;   ///< output of each step
  std::vector<BasicTensor<T>> slopes_;    ///< gradient of the loss by value(i), for each i
  std::vector<BasicTensor<T>> scales_;    ///< factors of a dropout step; empty for other steps
};

}  // namespace convoy
