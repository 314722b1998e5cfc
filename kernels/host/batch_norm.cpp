#include "kernels/host/batch_norm.hpp"

#include <cmath>

#include "kernels/joint_statistics.hpp"

namespace convoy {
namespace {

/// Returns the sum of f(x) over all elements x of a channel, in a fixed order.
template <class T, class F>
double sum_over(const BasicTensor<T>& maps, int c, F f) {
  double sum = 0.0;
  for (int n = 0; n < maps.shape().n; ++n) {
    const T* x = &maps.at(n, c);
    for (int e = 0; e < maps.shape().h * maps.shape().w; ++e) sum += f(static_cast<double>(x[e]));
  }
  return sum;
}

}  // namespace

template <class T>
HostBatchNorm<T>::HostBatchNorm(const BatchNorm& layer, const Shape& shape, int whole_batch,
                                HostParameters<T>& parameters, std::size_t number)
    : layer_(layer),
      shape_(shape),
      whole_batch_(whole_batch),
      parameters_(&parameters),
      number_(number),
      mean_(static_cast<std::size_t>(shape.c)),
      inverse_(static_cast<std::size_t>(shape.c)) {}

template <class T>
auto HostBatchNorm<T>::find_moments(const BasicTensor<T>& x, int c) const -> Moments {
  const double mean = sum_over(x, c, [](double value) { return value; }) / count();
  return {mean, sum_over(x, c, [&](double value) { return (value - mean) * (value - mean); }) / count()};
}

template <class T>
void HostBatchNorm<T>::normalise(const BasicTensor<T>& x, BasicTensor<T>& y, int c, const Moments& moments) {
  T& mean = own()[2].value.at(c, 0);
  T& variance = own()[3].value.at(c, 0);
  mean = next_average(layer_, mean, moments.mean);
  variance = next_average(layer_, variance, unbiased(moments.variance, whole_count()));
  normalise(x, y, c, moments.mean, moments.variance);
}

template <class T>
void HostBatchNorm<T>::normalise(const BasicTensor<T>& x, BasicTensor<T>& y, int c) {
  normalise(x, y, c, static_cast<double>(own()[2].value.at(c, 0)), static_cast<double>(own()[3].value.at(c, 0)));
}

template <class T>
void HostBatchNorm<T>::normalise(const BasicTensor<T>& x, BasicTensor<T>& y, int c, double mean, double variance) {
  const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(layer_.epsilon));
  mean_[c] = mean;
  inverse_[c] = inverse;
  const double factor = inverse * static_cast<double>(own()[0].value.at(c, 0));
  const auto bias = static_cast<double>(own()[1].value.at(c, 0));
  for (int n = 0; n < shape_.n; ++n) {
    const T* from = &x.at(n, c);
    T* to = &y.at(n, c);
    for (int e = 0; e < shape_.h * shape_.w; ++e) {
      to[e] = static_cast<T>((static_cast<double>(from[e]) - mean) * factor + bias);
    }
  }
}

template <class T>
auto HostBatchNorm<T>::find_slopes(const BasicTensor<T>& x, const BasicTensor<T>& dy, int c) -> Slopes {
  const double mean = mean_[c];
  const double inverse = inverse_[c];
  double sum = 0.0;
  double products = 0.0;
  for (int n = 0; n < shape_.n; ++n) {
    const T* value = &x.at(n, c);
    const T* slope = &dy.at(n, c);
    for (int e = 0; e < shape_.h * shape_.w; ++e) {
      sum += static_cast<double>(slope[e]);
      products += static_cast<double>(slope[e]) * (static_cast<double>(value[e]) - mean) * inverse;
    }
  }
  own()[0].gradient.at(c, 0) = static_cast<T>(products);
  own()[1].gradient.at(c, 0) = static_cast<T>(sum);
  return {sum, products};
}

/// With y' = (x - mean) * inverse: dx = weight * inverse * (dy - mean of dy - y' * mean of (dy * y')) (Ioffe and
/// Szegedy, ICML 2015).
template <class T>
void HostBatchNorm<T>::differentiate(const BasicTensor<T>& x, const BasicTensor<T>& dy, BasicTensor<T>& dx, int c,
                                     const Slopes& slopes) {
  const double mean = mean_[c];
  const double inverse = inverse_[c];
  const double count = whole_count();
  const double factor = static_cast<double>(own()[0].value.at(c, 0)) * inverse;
  for (int n = 0; n < shape_.n; ++n) {
    const T* value = &x.at(n, c);
    const T* slope = &dy.at(n, c);
    T* to = &dx.at(n, c);
    // Without a gradient through the statistics, as of a frozen norm, the values do not matter, be they NaN.
    if (slopes.sum == 0.0 && slopes.products == 0.0) {
      for (int e = 0; e < shape_.h * shape_.w; ++e) to[e] = static_cast<T>(factor * static_cast<double>(slope[e]));
      continue;
    }
    for (int e = 0; e < shape_.h * shape_.w; ++e) {
      const double normal = (static_cast<double>(value[e]) - mean) * inverse;
      to[e] = static_cast<T>(factor *
                             (static_cast<double>(slope[e]) - slopes.sum / count - normal * slopes.products / count));
    }
  }
}

template class HostBatchNorm<float>;
template class HostBatchNorm<double>;

}  // namespace convoy
