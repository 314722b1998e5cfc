#include "kernels/host/weightless.hpp"

#include <algorithm>
#include <cmath>

namespace convoy {

template <class T>
Weightless<T>::Weightless(const Stage& stage, FilterRange filters, int batch)
    : stage_(stage), filters_(filters), groups_(stage, filters), sizes_(stage) {
  if (stage.kind == StageKind::response_norm)
    bases_ = BasicTensor<T>({batch, filters.count, stage.height, stage.width});
}

template <class T>
FilterRange Weightless<T>::around(int channel) const {
  const int before = (stage_.norm.size - 1) / 2;
  return common(FilterRange{channel - before, stage_.norm.size}, {0, stage_.channels});
}

template <class T>
void Weightless<T>::forward(const BasicTensor<T>& input, SampleRange samples, BasicTensor<T>& maps) {
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    switch (stage_.kind) {
      case StageKind::response_norm: normalise(input, n, maps); break;
      case StageKind::shuffle: shuffle(input, n, maps); break;
      case StageKind::group_norm: groups_.normalise(&input.at(n, 0), &maps.at(n, 0)); break;
      case StageKind::resize:
        for (int c = 0; c < filters_.count; ++c) sizes_.resize(&input.at(n, filters_.first + c), &maps.at(n, c));
        break;
      default: std::copy_n(&input.at(n, filters_.first), maps.shape().sample_size(), &maps.at(n, 0));
    }
  }
}

template <class T>
void Weightless<T>::backward(const BasicTensor<T>& input, const BasicTensor<T>& gradient, SampleRange samples,
                             BasicTensor<T>& input_gradient) const {
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    std::fill_n(&input_gradient.at(n, 0), input_gradient.shape().sample_size(), T{0});
    switch (stage_.kind) {
      case StageKind::response_norm: normalise_backward(input, gradient, n, input_gradient); break;
      case StageKind::shuffle: shuffle_backward(gradient, n, input_gradient); break;
      case StageKind::group_norm:
        groups_.differentiate(&input.at(n, 0), &gradient.at(n, 0), &input_gradient.at(n, 0));
        break;
      case StageKind::resize:
        for (int c = 0; c < filters_.count; ++c) {
          sizes_.differentiate(&gradient.at(n, c), &input_gradient.at(n, filters_.first + c));
        }
        break;
      default: std::copy_n(&gradient.at(n, 0), gradient.shape().sample_size(), &input_gradient.at(n, filters_.first));
    }
  }
}

template <class T>
void Weightless<T>::shuffle(const BasicTensor<T>& input, int sample, BasicTensor<T>& maps) const {
  for (int c = 0; c < filters_.count; ++c) {
    std::copy_n(&input.at(sample, shuffled_from(stage_, filters_.first + c)), map(), &maps.at(sample, c));
  }
}

template <class T>
void Weightless<T>::shuffle_backward(const BasicTensor<T>& gradient, int sample, BasicTensor<T>& input_gradient) const {
  for (int c = 0; c < filters_.count; ++c) {
    std::copy_n(&gradient.at(sample, c), map(), &input_gradient.at(sample, shuffled_from(stage_, filters_.first + c)));
  }
}

template <class T>
void Weightless<T>::normalise(const BasicTensor<T>& input, int sample, BasicTensor<T>& maps) {
  const ResponseNorm& norm = stage_.norm;
  const auto share = static_cast<T>(norm.alpha / static_cast<float>(norm.size));
  const std::size_t size = map();
  for (int c = 0; c < filters_.count; ++c) {
    const FilterRange near = around(filters_.first + c);
    T* base = &bases_.at(sample, c);
    std::fill_n(base, size, static_cast<T>(norm.k));
    for (int j = near.first; j < near.first + near.count; ++j) {
      const T* x = &input.at(sample, j);
      for (std::size_t e = 0; e < size; ++e) base[e] += share * x[e] * x[e];
    }
    const T* x = &input.at(sample, filters_.first + c);
    T* y = &maps.at(sample, c);
    for (std::size_t e = 0; e < size; ++e) y[e] = x[e] * std::pow(base[e], static_cast<T>(-norm.beta));
  }
}

/// With b the base, y of a channel depends on its own x through b^-beta, and on the x of every channel in its window,
/// including its own, through b: dy/dx_other = -2 alpha / size * beta * x_own * x_other * b^(-beta - 1).
template <class T>
void Weightless<T>::normalise_backward(const BasicTensor<T>& input, const BasicTensor<T>& gradient, int sample,
                                       BasicTensor<T>& input_gradient) const {
  const ResponseNorm& norm = stage_.norm;
  const auto factor = static_cast<T>(-2.0F * norm.alpha * norm.beta / static_cast<float>(norm.size));
  const std::size_t size = map();
  std::vector<T> part(size);
  for (int c = 0; c < filters_.count; ++c) {
    const int channel = filters_.first + c;
    const FilterRange near = around(channel);
    const T* base = &bases_.at(sample, c);
    const T* x = &input.at(sample, channel);
    const T* dy = &gradient.at(sample, c);
    T* own = &input_gradient.at(sample, channel);
    for (std::size_t e = 0; e < size; ++e) {
      const T power = std::pow(base[e], static_cast<T>(-norm.beta));
      own[e] += dy[e] * power;
      part[e] = factor * dy[e] * x[e] * power / base[e];
    }
    for (int j = near.first; j < near.first + near.count; ++j) {
      const T* other = &input.at(sample, j);
      T* dx = &input_gradient.at(sample, j);
      for (std::size_t e = 0; e < size; ++e) dx[e] += part[e] * other[e];
    }
  }
}

template class Weightless<float>;
template class Weightless<double>;

}  // namespace convoy
