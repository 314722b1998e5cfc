// Activations on arrays of values, for the plain loops of devices and for the heads. As in PyTorch, the activation of a
// NaN is NaN, and a ReLU's gradient passes where its output is NaN. A comparison with NaN is false, so the comparisons
// here name the values that are cut off.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <type_traits>

#include "core/stage.hpp"

namespace convoy {

/// The numbers of Klambauer et al., rounded to float as in ONNX: selu(x) is gamma * elu(x) with this alpha.
inline constexpr float kSeluAlpha = 1.67326319217681884765625F;
inline constexpr float kSeluGamma = 1.05070102214813232421875F;

template <class T>
T logistic(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// The probability that a standard normal number is below x.
template <class T>
T normal_below(T x) {
  return T{0.5} * (T{1} + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2)));
}

/// The approximation of normal_below(x) by tanh (Hendrycks and Gimpel, 2016), and its derivative.
template <class T>
struct GeluByTanh {
  T share;
  T slope;

  explicit GeluByTanh(T x) {
    constexpr auto kCube = T(0.044715);
    constexpr auto kRoot = static_cast<T>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);  // of 2 / pi
    const T height = std::tanh(kRoot * (x + kCube * x * x * x));
    share = T{0.5} * (T{1} + height);
    slope = T{0.5} * (T{1} - height * height) * kRoot * (T{1} + T{3} * kCube * x * x);
  }
};

/// log(1 + e^x): e^x alone would be infinite for large x.
template <class T>
T softened(T x) {
  return (x > T{0} ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
}

/// An activation with the type of its numbers.
template <class T>
struct ActivationNumbers {
  T alpha;
  T beta;
};

template <Activation::Kind kind, class T>
T activated(T x, const ActivationNumbers<T>& with) {
  using Kind = Activation::Kind;
  if constexpr (kind == Kind::relu) return x < T{0} ? T{0} : x;
  if constexpr (kind == Kind::sigmoid) return logistic(x);
  if constexpr (kind == Kind::tanh) return std::tanh(x);
  if constexpr (kind == Kind::leaky_relu) return x > T{0} ? x : with.alpha * x;
  if constexpr (kind == Kind::clip) return x < with.alpha ? with.alpha : x > with.beta ? with.beta : x;
  if constexpr (kind == Kind::hard_sigmoid) {
    const T z = with.alpha * x + with.beta;
    return z < T{0} ? T{0} : z > T{1} ? T{1} : z;
  }
  if constexpr (kind == Kind::elu) return x > T{0} ? x : with.alpha * std::expm1(x);
  if constexpr (kind == Kind::selu) return T{kSeluGamma} * (x > T{0} ? x : T{kSeluAlpha} * std::expm1(x));
  if constexpr (kind == Kind::softplus) return softened(x);
  if constexpr (kind == Kind::silu) return x * logistic(x);
  if constexpr (kind == Kind::hard_swish) return x * (x <= T{-3} ? T{0} : x >= T{3} ? T{1} : (x + T{3}) / T{6});
  if constexpr (kind == Kind::gelu) return x * normal_below(x);
  if constexpr (kind == Kind::gelu_tanh) return x * GeluByTanh<T>(x).share;
  if constexpr (kind == Kind::mish) return x * std::tanh(softened(x));
  if constexpr (kind == Kind::celu) return x > T{0} ? x : with.alpha * std::expm1(x / with.alpha);
}

/// Returns the gradient with respect to x from the gradient dy with respect to y = activated(x). `kept` is y, or x
/// where derivative_from_output() does not hold. At limits and kinks the derivative is the one of PyTorch.
template <Activation::Kind kind, class T>
T activation_gradient(T kept, T dy, const ActivationNumbers<T>& with) {
  using Kind = Activation::Kind;
  if constexpr (kind == Kind::relu) return kept <= T{0} ? T{0} : dy;
  if constexpr (kind == Kind::sigmoid) return dy * (kept * (T{1} - kept));
  if constexpr (kind == Kind::tanh) return dy * (T{1} - kept * kept);
  if constexpr (kind == Kind::leaky_relu) return kept > T{0} ? dy : dy * with.alpha;
  if constexpr (kind == Kind::clip) return kept <= with.alpha || kept >= with.beta ? T{0} : dy;
  if constexpr (kind == Kind::hard_sigmoid) return kept <= T{0} || kept >= T{1} ? T{0} : dy * with.alpha;
  if constexpr (kind == Kind::elu) return kept > T{0} ? dy : dy * (kept + with.alpha);
  if constexpr (kind == Kind::selu) {
    return dy * (kept > T{0} ? T{kSeluGamma} : kept + T{kSeluGamma} * T{kSeluAlpha});
  }
  // The sigmoid of x, since e^y = 1 + e^x.
  if constexpr (kind == Kind::softplus) return dy * -std::expm1(-kept);
  if constexpr (kind == Kind::silu) {
    const T share = logistic(kept);
    return dy * (share * (T{1} + kept * (T{1} - share)));
  }
  if constexpr (kind == Kind::hard_swish) {
    return kept <= T{-3} ? T{0} : kept >= T{3} ? dy : dy * (kept / T{3} + T{0.5});
  }
  if constexpr (kind == Kind::gelu) {
    constexpr double kHighest = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // of the normal density
    return dy * (normal_below(kept) + kept * static_cast<T>(kHighest) * std::exp(T{-0.5} * kept * kept));
  }
  if constexpr (kind == Kind::gelu_tanh) {
    const GeluByTanh<T> by(kept);
    return dy * (by.share + kept * by.slope);
  }
  if constexpr (kind == Kind::mish) {
    const T height = std::tanh(softened(kept));
    return dy * (height + kept * logistic(kept) * (T{1} - height * height));
  }
  if constexpr (kind == Kind::celu) return kept > T{0} ? dy : dy * (kept / with.alpha + T{1});
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
    case Kind::clip: return work(std::integral_constant<Kind, Kind::clip>());
    case Kind::hard_sigmoid: return work(std::integral_constant<Kind, Kind::hard_sigmoid>());
    case Kind::elu: return work(std::integral_constant<Kind, Kind::elu>());
    case Kind::selu: return work(std::integral_constant<Kind, Kind::selu>());
    case Kind::softplus: return work(std::integral_constant<Kind, Kind::softplus>());
    case Kind::silu: return work(std::integral_constant<Kind, Kind::silu>());
    case Kind::hard_swish: return work(std::integral_constant<Kind, Kind::hard_swish>());
    case Kind::gelu: return work(std::integral_constant<Kind, Kind::gelu>());
    case Kind::gelu_tanh: return work(std::integral_constant<Kind, Kind::gelu_tanh>());
    case Kind::mish: return work(std::integral_constant<Kind, Kind::mish>());
    case Kind::celu: return work(std::integral_constant<Kind, Kind::celu>());
  }
}

/// y = activation(x).
template <class T>
void activate(const Activation& activation, const T* x, T* y, std::size_t count) {
  const ActivationNumbers<T> with{static_cast<T>(activation.alpha), static_cast<T>(activation.beta)};
  by_kind(activation.kind, [=](auto kind) {
    for (std::size_t i = 0; i < count; ++i) y[i] = activated<decltype(kind)::value>(x[i], with);
  });
}

/// dx = dy * derivative, where the derivative is computed from y = activation(x) alone if derivative_from_output()
/// holds, and else from x alone.
template <class T>
void activate_backward(const Activation& activation, const T* x, const T* y, const T* dy, T* dx, std::size_t count) {
  const ActivationNumbers<T> with{static_cast<T>(activation.alpha), static_cast<T>(activation.beta)};
  const T* kept = derivative_from_output(activation.kind) ? y : x;
  by_kind(activation.kind, [=](auto kind) {
    for (std::size_t i = 0; i < count; ++i) dx[i] = activation_gradient<decltype(kind)::value>(kept[i], dy[i], with);
  });
}

/// Returns the activation's number in GPU kernels; 0 stands for no activation.
inline int code_of(const Activation& activation) { return static_cast<int>(activation.kind) + 1; }
/// Returns whether a convolution in GPU kernels includes the activation where it comes first.
inline bool joins_convolutions_on_gpus(const Activation& activation) {
  using Kind = Activation::Kind;
  return activation.kind == Kind::relu || activation.kind == Kind::sigmoid || activation.kind == Kind::tanh;
}
/// Returns whether the kernel that takes the number as an argument computes the activation. It knows few, so that they
/// stay fast; the others have kernels of their own.
inline bool has_plain_kernel(const Activation& activation) {
  return joins_convolutions_on_gpus(activation) || activation.kind == Activation::Kind::leaky_relu;
}

}  // namespace convoy
