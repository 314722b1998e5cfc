// What a shard is besides its geometry: the parameters of its filters with what the optimizer keeps for them, as they
// travel and are stored; and the optimizer's step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// One of the tensors that training changes.
struct ParameterSpec {
  std::string name;     ///< of the whole stage's in files, as PyTorch names it: "conv1.weight", "bn1.running_mean"
  Shape shape;          ///< the first extent counts filters
  bool trained = true;  ///< by gradients; else a running average
};

/// Those of `filters` filters, in the order of ShardState: the convolution's weights, (filters, channels, kernel_h,
/// kernel_w), and biases, (filters, 1), where it has any; of each batch norm weights, biases, running means and running
/// variances, (filters, 1) each.
std::vector<ParameterSpec> parameters_of(const Stage& stage, int filters);

/// Of the parameters of `filters` filters with their moments.
std::size_t state_bytes(const Stage& stage, int filters);

/// Whether there are any.
bool has_parameters(const Stage& stage);

/// How many of them the convolution has: batch norms' follow, four of each.
std::size_t convolution_parameters(const Stage& stage);

/// A parameter's values with the optimizer's moments, of the same shape: of SGD the velocity, of Adam the means of the
/// gradients and of their squares; none where it is not trained.
template <class T>
struct BasicParameter {
  BasicTensor<T> value;
  std::vector<BasicTensor<T>> moments;
};
using Parameter = BasicParameter<float>;

/// What belongs to one shard between steps, on the host.
struct ShardState {
  std::vector<Parameter> parameters;

  /// The convolution's.
  Tensor& weights() { return parameters.at(0).value; }
  const Tensor& weights() const { return parameters.at(0).value; }
  Tensor& bias() { return parameters.at(1).value; }
  const Tensor& bias() const { return parameters.at(1).value; }
};

/// Calls visit(tensor) for all tensors of a state, each parameter's moments behind its values.
template <class State, class Visit>
void for_each_tensor(State& state, Visit visit) {
  for (auto& parameter : state.parameters) {
    visit(parameter.value);
    for (auto& moment : parameter.moments) visit(moment);
  }
}

/// The state of `filters` filters of a stage before training: all zeros, but batch norms' weights and running variances,
/// which are ones.
ShardState zero_state(const Stage& stage, int filters);
/// Copies filters [range] out of / into a state.
ShardState slice(const ShardState& whole, FilterRange range);
void paste(const ShardState& part, FilterRange range, ShardState& whole);

enum class Optimizer : std::uint8_t {
  sgd,       ///< v = momentum * v + g;  w = w - learning_rate * v  (Sutskever et al., ICML 2013, as PyTorch writes it)
  nesterov,  ///< the same with  w = w - learning_rate * (g + momentum * v)
  /// m = momentum * m + (1 - momentum) * g;  s = beta2 * s + (1 - beta2) * g * g;
  /// w = w - learning_rate * (m / correction1) / (sqrt(s / correction2) + epsilon)  (Kingma and Ba, ICLR 2015)
  adam
};

/// Moments that an optimizer keeps for each parameter.
int moments_of(Optimizer optimizer);

/// One update, with g = gradient_scale * gradient + weight_decay * w, for all parameters alike.
struct UpdateStep {
  Optimizer optimizer = Optimizer::sgd;
  float learning_rate = 0.01F;
  float momentum = 0.0F;  ///< Adam's beta1
  float weight_decay = 0.0F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float correction1 = 1.0F;  ///< 1 - beta1^t in step t, from 1
  float correction2 = 1.0F;  ///< 1 - beta2^t
  float gradient_scale = 1.0F;
  bool operator==(const UpdateStep&) const = default;
};

/// Values first .. first + count - 1 of a parameter, by plain loops. `moments`: as many as moments_of() says.
template <class T>
void update_values(const UpdateStep& step, const T* gradient, T* values, T* const* moments, std::size_t first,
                   std::size_t count);

/// In double, in the order of the values.
template <class T>
double sum_of_squares(std::span<const T> values) {
  double sum = 0.0;
  for (const T value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

}  // namespace convoy
