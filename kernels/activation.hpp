// The activations as functions of one value, for the devices' plain loops and the head.
#pragma once

#include <cmath>

#include "core/stage.hpp"

namespace convoy {

template <class T>
T activate(Activation kind, T x) {
  switch (kind) {
    case Activation::relu: return x > T{0} ? x : T{0};
    case Activation::sigmoid: return T{1} / (T{1} + std::exp(-x));
    case Activation::tanh: return std::tanh(x);
  }
  return x;
}

/// The derivative by x, from y = activate(kind, x).
template <class T>
T activation_slope(Activation kind, T y) {
  switch (kind) {
    case Activation::relu: return y > T{0} ? T{1} : T{0};
    case Activation::sigmoid: return y * (T{1} - y);
    case Activation::tanh: return T{1} - y * y;
  }
  return T{1};
}

/// As kernels on GPUs number them; 0 is none.
inline int code_of(Activation activation) {
  switch (activation) {
    case Activation::relu: return 1;
    case Activation::sigmoid: return 2;
    case Activation::tanh: return 3;
  }
  return 0;
}

}  // namespace convoy
