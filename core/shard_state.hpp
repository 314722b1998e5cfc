// The state of a shard: the parameters of its filters and the optimizer's moments, as they are stored and sent; and the
// optimizer's step.
#pragma once

#include <bit>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/stage.hpp"

namespace convoy {

/// The name and shape of one of a stage's parameters.
struct ParameterSpec {
  std::string name;     ///< in files and for the whole stage, in PyTorch's naming: "conv1.weight", "bn1.running_mean"
  Shape shape;          ///< the first extent counts filters
  bool trained = true;  ///< by gradients; otherwise a running average, or frozen
  float rate = 1.0F;    ///< factor of the learning rate
};

/// Returns the parameters of `filters` filters in the order of ShardState: the convolution's weights, (filters,
/// channels / groups, kernel_h, kernel_w), and, where it has any, biases, (filters, 1); then weights, biases, running
/// means and running variances of each batch norm, (filters, 1) each.
std::vector<ParameterSpec> parameters_of(const Stage& stage, int filters);

/// Returns the bytes of the parameters of `filters` filters with their moments.
std::size_t state_bytes(const Stage& stage, int filters);

/// Returns whether the stage has any parameters.
bool has_parameters(const Stage& stage);
/// Returns whether gradients train any of the stage's parameters.
bool has_trained_parameters(const Stage& stage);

/// Returns, by stage, whether a step needs the gradient with respect to its maps: the stage, or one whose maps it reads
/// directly or through others, has trained parameters. The other stages have no backward pass.
std::vector<bool> needed_gradients(const std::vector<Stage>& trunk);
/// Returns whether a stage needs the gradient with respect to its own input. The inputs of its Add layers do not count.
bool needs_input_gradient(const std::vector<Stage>& trunk, std::size_t stage);

/// Returns how many of the stage's parameters belong to the convolution. Four parameters of each batch norm follow
/// them.
std::size_t convolution_parameters(const Stage& stage);

/// A parameter's values and the optimizer's moments, all of the same shape. SGD keeps the velocity; Adam keeps the
/// running means of the gradients and of their squares. An untrained parameter has no moments.
template <class T>
struct BasicParameter {
  BasicTensor<T> value;
  std::vector<BasicTensor<T>> moments;
};
using Parameter = BasicParameter<float>;

/// The state that a shard keeps between steps, on the host.
struct ShardState {
  std::vector<Parameter> parameters;

  /// The convolution's weights and biases; unavailable where the stage has none.
  Tensor& weights() { return parameters.at(0).value; }
  const Tensor& weights() const { return parameters.at(0).value; }
  Tensor& bias() { return parameters.at(1).value; }
  const Tensor& bias() const { return parameters.at(1).value; }
};

/// Calls visit(tensor) for all tensors of a state: each parameter's values, then its moments.
template <class State, class Visit>
void for_each_tensor(State& state, Visit visit) {
  for (auto& parameter : state.parameters) {
    visit(parameter.value);
    for (auto& moment : parameter.moments) visit(moment);
  }
}

/// Returns the state of `filters` filters of a stage before training: ones for the weights and running variances of
/// batch norms, zeros for everything else.
ShardState zero_state(const Stage& stage, int filters);
/// Copies the filters in `range` out of the state `whole`.
ShardState slice(const ShardState& whole, FilterRange range);
/// Copies `part` over the filters in `range` of the state `whole`. A part without moments leaves those of `whole`.
void paste(const ShardState& part, FilterRange range, ShardState& whole);
/// Drops the moments of all parameters.
void drop_moments(ShardState& state);
/// Replaces the values of the trained parameters of `state` by what they have changed since they were those of `from`,
/// a state of the same filters of the stage.
void subtract_trained(const Stage& stage, const ShardState& from, ShardState& state);
/// Adds the values of the trained parameters of `from` to those of `state`, which subtract_trained() left.
void add_trained(const Stage& stage, const ShardState& from, ShardState& state);

/// The rule of an update, for parameters w with gradients g, velocity v or moments m and s.
enum class Optimizer : std::uint8_t {
  sgd,       ///< v = momentum * v + g;  w = w - learning_rate * v  (Sutskever et al., ICML 2013, as PyTorch writes it)
  nesterov,  ///< the same with  w = w - learning_rate * (g + momentum * v)
  /// m = momentum * m + (1 - momentum) * g;  s = beta2 * s + (1 - beta2) * g * g;
  /// w = w - learning_rate * (m / correction1) / (sqrt(s / correction2) + epsilon)  (Kingma and Ba, ICLR 2015)
  adam
};

/// Returns the number of tensors that the optimizer keeps for each parameter.
int moments_of(Optimizer optimizer);

/// One update, with g = gradient_scale * gradient + weight_decay * w, the same for all parameters. An update in floats
/// is defined to the bit, so that members which each update the same weights keep the same weights: update_values()
/// says in which order, and every sum, product, quotient and root is an operation of IEEE 754 that is rounded by
/// itself, never fused with another, and keeps denormals.
struct UpdateStep {
  Optimizer optimizer = Optimizer::sgd;
  float learning_rate = 0.01F;
  float momentum = 0.0F;  ///< Adam's beta1
  float weight_decay = 0.0F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float correction1 = 1.0F;  ///< 1 - beta1^t in step t, counted from 1
  float correction2 = 1.0F;  ///< 1 - beta2^t
  float gradient_scale = 1.0F;
  bool operator==(const UpdateStep&) const = default;
};

/// Returns the update of a parameter whose learning rate has a factor of its own.
UpdateStep with_rate(UpdateStep step, float rate);

/// Tests whether values are finite, in a form that compilers vectorise: x - x is 0 for a finite x and NaN for others.
template <class T>
class FiniteValues {
 public:
  void add(T value) { bits_ |= std::bit_cast<Bits>(value - value); }
  bool all_finite() const { return bits_ == 0; }

 private:
  using Bits = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
  Bits bits_ = 0;
};

template <class T>
bool all_finite(std::span<const T> values) {
  FiniteValues<T> seen;
  for (const T value : values) seen.add(value);
  return seen.all_finite();
}

/// Updates values first .. first + count - 1 of a parameter with plain loops, which define an update to the bit.
/// `moments` has moments_of(step.optimizer) pointers. Returns whether the new values and moments are finite, which they
/// are not if a gradient is not.
template <class T>
bool update_values(const UpdateStep& step, const T* gradient, T* values, T* const* moments, std::size_t first,
                   std::size_t count);

/// Returns the sum of the squares, summed in double in the order of the values.
template <class T>
double sum_of_squares(std::span<const T> values) {
  double sum = 0.0;
  for (const T value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

}  // namespace convoy
