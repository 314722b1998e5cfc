// Activations on arrays of values, for the plain loops of devices and for the heads. As in PyTorch, the activation of a
// NaN is NaN, and a ReLU's gradient passes where its output is NaN. A comparison with NaN is false, so the comparisons
// here name the values that are cut off.
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "core/stage.hpp"

namespace convoy {

template <Activation::Kind kind, class T>
T activated(T x, T slope) {
  using Kind = Activation::Kind;
  if constexpr (kind == Kind::relu) return x < T{0} ? T{0} : x;
  if constexpr (kind == Kind::sigmoid) return T{1} / (T{1} + std::exp(-x));
  if constexpr (kind == Kind::tanh) return std::tanh(x);
  if constexpr (kind == Kind::leaky_relu) return x > T{0} ? x : slope * x;
}

/// Returns the gradient with respect to x from the gradient dy with respect to y = activated(x).
template <Activation::Kind kind, class T>
T activation_gradient(T y, T dy, T slope) {
  using Kind = Activation::Kind;
  if constexpr (kind == Kind::relu) return y <= T{0} ? T{0} : dy;
  if constexpr (kind == Kind::sigmoid) return dy * (y * (T{1} - y));
  if constexpr (kind == Kind::tanh) return dy * (T{1} - y * y);
  if constexpr (kind == Kind::leaky_relu) return y > T{0} ? dy : dy * slope;
}

/// Calls work with the kind as a compile-time constant, so that compilers can vectorise its loop.
template <class Work>
void by_kind(Activation::Kind kind, Work work) {
  using Kind = Activation::Kind;
  switch (kind) {
    case Kind::relu: return work(std::integral_constant<Kind, Kind::relu>());
    case Kind::sigmoid: return work(std::integral_constant<Kind, Kind::sigmoid>());
    case Kind::tanh: return work(std::integral_constant<Kind, Kind::tanh>());
    case Kind::leaky_relu: return work(std::integral_constant<Kind, Kind::leaky_relu>());
  }
}

/// y = activation(x).
template <class T>
void activate(const Activation& activation, const T* x, T* y, std::size_t count) {
  by_kind(activation.kind, [=, slope = static_cast<T>(activation.slope)](auto kind) {
    for (std::size_t i = 0; i < count; ++i) y[i] = activated<decltype(kind)::value>(x[i], slope);
  });
}

/// dx = dy * derivative, where the derivative is computed from y = activation(x).
template <class T>
void activate_backward(const Activation& activation, const T* y, const T* dy, T* dx, std::size_t count) {
  by_kind(activation.kind, [=, slope = static_cast<T>(activation.slope)](auto kind) {
    for (std::size_t i = 0; i < count; ++i) dx[i] = activation_gradient<decltype(kind)::value>(y[i], dy[i], slope);
  });
}

/// Returns the activation's number in GPU kernels; 0 stands for no activation.
inline int code_of(const Activation& activation) { return static_cast<int>(activation.kind) + 1; }

}  // namespace convoy
