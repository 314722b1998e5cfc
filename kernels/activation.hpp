// The activations as functions of one value, for the devices' plain loops and the head.
#pragma once

#include <cmath>

#include "core/stage.hpp"

namespace convoy {

template <class T>
T activate(const Activation& activation, T x) {
  switch (activation.kind) {
    case Activation::Kind::relu: return x > T{0} ? x : T{0};
    case Activation::Kind::sigmoid: return T{1} / (T{1} + std::exp(-x));
    case Activation::Kind::tanh: return std::tanh(x);
    case Activation::Kind::leaky_relu: return x > T{0} ? x : static_cast<T>(activation.slope) * x;
  }
  return x;
}

/// The derivative by x, from y = activate(activation, x).
template <class T>
T activation_slope(const Activation& activation, T y) {
  switch (activation.kind) {
    case Activation::Kind::relu: return y > T{0} ? T{1} : T{0};
    case Activation::Kind::sigmoid: return y * (T{1} - y);
    case Activation::Kind::tanh: return T{1} - y * y;
    case Activation::Kind::leaky_relu: return y > T{0} ? T{1} : static_cast<T>(activation.slope);
  }
  return T{1};
}

/// As kernels on GPUs number them; 0 is none.
inline int code_of(const Activation& activation) { return static_cast<int>(activation.kind) + 1; }

}  // namespace convoy
