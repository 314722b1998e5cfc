// A dense layer of a head: its values, and who computes it. The host does, or a device (model/device_dense.hpp).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/shard_state.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// The weights and bias of one dense layer, with the optimizer's moments.
template <class T>
struct DenseState {
  std::string name;
  BasicParameter<T> weights;  ///< (units, inputs)
  BasicParameter<T> bias;     ///< (units, 1)
};

/// The description of a dense layer: y = W x + b for each sample.
struct DenseSpec {
  std::string name;
  int inputs = 1;  ///< numbers of a sample of x
  int units = 1;   ///< numbers of a sample of y
  int batch = 1;   ///< samples of a batch
  int moments = 0;
  float rate = 1.0F;           ///< factor of the learning rate; 0: the layer is frozen
  bool input_gradient = true;  ///< whether the gradient by x is wanted

  bool frozen() const { return rate == 0.0F; }
};

/// A batch passes in parts, in ascending order, and each part may go backward before the next goes forward. Values of a
/// part are those of its samples alone; values of a batch are those of all samples.
template <class T>
class DenseLayer {
 public:
  virtual ~DenseLayer() = default;
  virtual const DenseSpec& spec() const = 0;

  /// Computes y of a part.
  virtual void forward(std::span<const T> x, std::span<T> y, const Pass& pass, SampleRange samples) = 0;
  /// Computes the gradient by x of a part from the gradient by y. `dx` is left alone where none is wanted.
  virtual void backward(std::span<const T> dy, std::span<T> dx, SampleRange samples) = 0;
  /// Computes the gradients by weights and bias, after backward of all parts. `x` and `dy` are those of the batch.
  virtual void backward_weights(std::span<const T> x, std::span<const T> dy) = 0;
  /// Updates by the gradients of the last backward_weights.
  virtual void update(const UpdateStep& step) = 0;
  /// Whether all values and moments are finite, as far as the updates have been done. After an update that left other
  /// values the answer stays false until set_state() or edit(). After state() it covers all updates.
  virtual bool finite() const = 0;

  /// The newest values. The reference is valid until the next call of another function.
  virtual const DenseState<T>& state() const = 0;
  virtual void set_state(const DenseState<T>& state) = 0;
  /// The newest values, to be changed before the next forward or update.
  virtual DenseState<T>& edit() = 0;
  /// The gradients of the last backward_weights: (units, inputs) and (units, 1).
  virtual const BasicTensor<T>& weight_gradient() const = 0;
  virtual const BasicTensor<T>& bias_gradient() const = 0;
  double gradient_squares() const {
    return sum_of_squares<T>(weight_gradient().span()) + sum_of_squares<T>(bias_gradient().span());
  }
};

template <class T>
using MakeDense = std::function<std::unique_ptr<DenseLayer<T>>(const DenseSpec& spec)>;

/// Returns a dense layer that the host computes, with the threads of set_matmul_threads(). Its values are zeros.
template <class T>
std::unique_ptr<DenseLayer<T>> make_host_dense(const DenseSpec& spec);

}  // namespace convoy
