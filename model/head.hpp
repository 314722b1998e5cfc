// A head: the dense layers, activations, dropout and loss that the master runs after the trunk.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "model/dense_layer.hpp"
#include "model/labels.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// The loss of some samples of a batch.
struct BatchLoss {
  double sum = 0.0;  ///< sum over the counted samples
  int correct = 0;   ///< number of samples whose largest output is their label's
};

/// Returns the class that the outputs of a sample name: the first of the largest, or -1 where an output is NaN.
template <class T>
int index_of_largest(std::span<const T> outputs);

/// A head. Its dense layers are computed by the host or by a device (DenseLayer), and all other layers by the host. T
/// is float in training and double in gradient checks. A batch may pass through in parts: each part goes through
/// forward, loss and backward before the next part.
template <class T>
class Head {
 public:
  /// Makes a head for batches of `batch` samples, with weights of zero. `moments` is the number of tensors that the
  /// optimizer keeps for each parameter. Without `input_gradient`, backward does not compute the gradient by the maps.
  /// `make` makes the dense layers. Throws Error if a layer cannot be part of a head.
  Head(const CutHead& cut, int moments, int batch, bool input_gradient = true,
       const MakeDense<T>& make = make_host_dense<T>);

  /// From now on dense layers compute nothing: their outputs and gradients are zeros, and their weights stay.
  void stop_computing() { computes_ = false; }

  SampleRange all() const { return {0, batch_}; }
  /// Computes the outputs before the loss, (batch, classes), of `samples` of the maps (batch, channels, height, width).
  /// The maps must live until backward_weights. The result belongs to the head and is valid until the next forward.
  const BasicTensor<T>& forward(const BasicTensor<T>& maps, const Pass& pass, SampleRange samples);
  const BasicTensor<T>& forward(const BasicTensor<T>& maps, const Pass& pass) { return forward(maps, pass, all()); }
  /// Returns the unweighted loss of the last forward's outputs, over those of `samples` that are among the first
  /// `count` of the batch. Prepares for backward the gradient of the mean over `count` samples. There must be at least
  /// `count` labels. With a teacher's probabilities the loss is taught_loss(), in which softmax_cross_entropy is the
  /// hard loss. An output counts as correct where it is that of Labels::classes, of mixed images, too.
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
  /// The first dense layer that an update left with values that are not finite; empty if none is known. Updates by a
  /// device are known when it has done them, and after state().
  std::string broken() const;
  /// The sum of squares of all gradients by weights and biases. Those of frozen layers count as 0.
  double gradient_squares() const;

  std::size_t dense_layers() const { return dense_.size(); }
  /// The newest values of dense layer i. The reference is valid until the next call of another function of the head.
  const DenseState<T>& state(std::size_t i) const { return dense_[i]->state(); }
  void set_state(std::size_t i, const DenseState<T>& state) { dense_[i]->set_state(state); }
  /// The newest values of dense layer i, to be changed before the next forward or update.
  DenseState<T>& edit(std::size_t i) { return dense_[i]->edit(); }
  const DenseSpec& dense_spec(std::size_t i) const { return dense_[i]->spec(); }
  /// Whether dense layer i is frozen: it has no moments, and its gradients are 0.
  bool frozen(std::size_t i) const { return dense_spec(i).frozen(); }
  /// The gradients by the weights and bias of dense layer i, as of the last backward_weights.
  const BasicTensor<T>& weight_gradient(std::size_t i) const { return dense_[i]->weight_gradient(); }
  const BasicTensor<T>& bias_gradient(std::size_t i) const { return dense_[i]->bias_gradient(); }

 private:
  struct Step {
    LayerSpec spec;
    int inputs = 0;  ///< elements of one sample
    int outputs = 0;
    int dense = -1;  ///< index into dense_
  };
  void add_step(const Layer& layer, int& features, const MakeDense<T>& make);
  /// The input of step `index`; for the index after the last step, the input of the loss.
  const BasicTensor<T>& value(std::size_t index) const { return index == 0 ? *maps_ : outputs_[index - 1]; }
  /// Returns the factor of the losses of samples of these classes, where classes have weights: their number divided by
  /// the sum of their weights.
  double share_of(std::span<const int> classes) const;
  /// Returns the loss of one sample by its label, times `share`; `gradient` receives the gradient by the outputs in
  /// `row`.
  double loss_by(int label, double share, std::span<const T> row, std::span<T> gradient) const;
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
  std::size_t first_trained_ = 0;  ///< the first step with trained weights; behind the last one if there is none
  std::vector<std::unique_ptr<DenseLayer<T>>> dense_;
  const BasicTensor<T>* maps_ = nullptr;  ///< input of the last forward
  std::vector<BasicTensor<T>> outputs_;   ///< output of each step
  std::vector<BasicTensor<T>> slopes_;    ///< gradient of the loss by value(i), for each i
  std::vector<BasicTensor<T>> scales_;    ///< factors of a dropout step; empty for other steps
};

}  // namespace convoy
