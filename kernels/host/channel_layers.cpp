#include "kernels/host/channel_layers.hpp"

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "kernels/host/activation.hpp"

namespace convoy {
namespace {

/// One map: rows x columns values of one channel of one sample.
template <class T>
struct Map {
  T* values;
  int h;
  int w;
};

template <class T>
Map<T> map_of(BasicTensor<T>& tensor, int n, int c) {
  return {&tensor.at(n, c), tensor.shape().h, tensor.shape().w};
}

/// The rows or columns of a map under one position of a window, clipped at the map's borders.
struct Span {
  int first;
  int last;
};

Span window(int position, int stride, int kernel, int pad, int extent) {
  const int start = position * stride - pad;
  return {std::max(start, 0), std::min(start + kernel, extent)};
}

template <class Visit>
void for_each_window(const Pooling& pool, int in_h, int in_w, int out_h, int out_w, Visit visit) {
  for (int y = 0; y < out_h; ++y) {
    const Span rows = window(y, pool.stride_h, pool.kernel_h, pool.pad.top, in_h);
    for (int x = 0; x < out_w; ++x) {
      visit(y * out_w + x, rows, window(x, pool.stride_w, pool.kernel_w, pool.pad.left, in_w));
    }
  }
}

template <class T>
void max_forward(const Pooling& pool, Map<T> in, Map<T> out, int* places) {
  for_each_window(pool, in.h, in.w, out.h, out.w, [&](int o, Span rows, Span columns) {
    int best = rows.first * in.w + columns.first;
    for (int y = rows.first; y < rows.last; ++y) {
      for (int x = columns.first; x < columns.last; ++x) {
        const T value = in.values[y * in.w + x];
        if (value > in.values[best] || std::isnan(value)) best = y * in.w + x;
      }
    }
    places[o] = best;
    out.values[o] = in.values[best];
  });
}

template <class T>
void average_forward(const Pooling& pool, Map<T> in, Map<T> out) {
  for_each_window(pool, in.h, in.w, out.h, out.w, [&](int o, Span rows, Span columns) {
    double sum = 0.0;
    for (int y = rows.first; y < rows.last; ++y) {
      for (int x = columns.first; x < columns.last; ++x) sum += static_cast<double>(in.values[y * in.w + x]);
    }
    out.values[o] = static_cast<T>(sum / ((rows.last - rows.first) * (columns.last - columns.first)));
  });
}

template <class T>
void average_backward(const Pooling& pool, Map<T> in_slope, Map<T> out_slope) {
  for_each_window(pool, in_slope.h, in_slope.w, out_slope.h, out_slope.w, [&](int o, Span rows, Span columns) {
    const int count = (rows.last - rows.first) * (columns.last - columns.first);
    for (int y = rows.first; y < rows.last; ++y) {
      for (int x = columns.first; x < columns.last; ++x) {
        in_slope.values[y * in_slope.w + x] += out_slope.values[o] / static_cast<T>(count);
      }
    }
  });
}

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
ChannelLayers<T>::ChannelLayers(const ShardSpec& spec, HostParameters<T>* parameters)
    : layers_(spec.stage.after),
      spec_(spec),
      parameters_(parameters),
      max_places_(layers_.size()),
      scales_(layers_.size()),
      moments_(layers_.size()),
      norm_numbers_(layers_.size()) {
  Shape shape = conv_shape(spec.stage, spec.batch, spec.filters.count);
  values_.emplace_back(shape, T{0});
  std::size_t norms = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (std::holds_alternative<Dropout>(layers_[i])) scales_[i] = BasicTensor<T>(shape, T{1});
    if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
      shape = pooled_shape(*pool, shape);
      if (pool->kind == PoolKind::max) max_places_[i].resize(shape.size());
    }
    if (std::holds_alternative<Add>(layers_[i])) {
      add_layers_.push_back(i);
      added_.push_back(nullptr);
    }
    if (is_norm(i)) {
      invariant(parameters != nullptr, "a stage with batch norm has parameters");
      const auto channels = static_cast<std::size_t>(shape.c);
      moments_[i] = {std::vector<double>(channels), std::vector<double>(channels)};
      norm_numbers_[i] = norms++;
    }
    values_.emplace_back(shape, T{0});
  }
  for (const BasicTensor<T>& value : values_) slopes_.emplace_back(value.shape(), T{0});
}

template <class T>
SampleRange ChannelLayers<T>::forward(SampleRange samples, const Pass& pass, const Splitter& split) {
  samples = spec_.ready_after_forward(samples);
  if (samples.count == 0) return samples;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const int channels = values_[i].shape().c;
    if (is_norm(i)) {
      split(channels, [&](int first, int last) {
        for (int c = first; c < last; ++c) normalise(i, c, pass);
      });
      continue;
    }
    split(samples.count, [&](int first, int last) {
      for (int n = samples.first + first; n < samples.first + last; ++n) {
        for (int c = 0; c < channels; ++c) forward_layer(i, n, c, pass);
      }
    });
  }
  return samples;
}

template <class T>
void ChannelLayers<T>::forward_layer(std::size_t i, int n, int c, const Pass& pass) {
  const Map<T> in = map_of(values_[i], n, c);
  const Map<T> out = map_of(values_[i + 1], n, c);
  const int size = in.h * in.w;
  if (const auto* activation = std::get_if<Activation>(&layers_[i])) {
    activate(*activation, in.values, out.values, static_cast<std::size_t>(size));
  } else if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
    if (pool->kind == PoolKind::average) return average_forward(*pool, in, out);
    const std::size_t map =
        static_cast<std::size_t>(n) * static_cast<std::size_t>(values_[i + 1].shape().c) + static_cast<std::size_t>(c);
    max_forward(*pool, in, out, max_places_[i].data() + map * static_cast<std::size_t>(out.h * out.w));
  } else if (std::holds_alternative<Add>(layers_[i])) {
    const auto number = static_cast<std::size_t>(std::ranges::find(add_layers_, i) - add_layers_.begin());
    invariant(added_[number] != nullptr, "connect is called before forward");
    const T* other = &added_[number]->at(n, c);
    for (int e = 0; e < size; ++e) out.values[e] = in.values[e] + other[e];
  } else {
    const auto& dropout = std::get<Dropout>(layers_[i]);
    T* scale = &scales_[i].at(n, c);
    const Origin origin = origin_of(spec_);
    const int number = origin.number_in_batch(n);
    for (int e = 0; e < size; ++e) {
      scale[e] = pass.training ? static_cast<T>(dropout_scale(pass.seed, dropout.stream, dropout.rate, number,
                                                              origin.first_filter + c, e))
                               : T{1};
      out.values[e] = in.values[e] * scale[e];
    }
  }
}

template <class T>
SampleRange ChannelLayers<T>::backward(SampleRange samples, const Splitter& split) {
  samples = spec_.read_by_backward(samples);
  if (samples.count == 0) return samples;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const int channels = values_[i].shape().c;
    if (is_norm(i)) {
      split(channels, [&](int first, int last) {
        for (int c = first; c < last; ++c) normalise_backward(i, c);
      });
      continue;
    }
    split(samples.count, [&](int first, int last) {
      for (int n = samples.first + first; n < samples.first + last; ++n) {
        for (int c = 0; c < channels; ++c) backward_layer(i, n, c);
      }
    });
  }
  return samples;
}

template <class T>
void ChannelLayers<T>::backward_layer(std::size_t i, int n, int c) {
  const Map<T> in_slope = map_of(slopes_[i], n, c);
  const Map<T> out_slope = map_of(slopes_[i + 1], n, c);
  const int size = in_slope.h * in_slope.w;
  if (const auto* activation = std::get_if<Activation>(&layers_[i])) {
    const T* y = &values_[i + 1].at(n, c);
    activate_backward(*activation, y, out_slope.values, in_slope.values, static_cast<std::size_t>(size));
  } else if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
    std::fill_n(in_slope.values, size, T{0});
    if (pool->kind == PoolKind::average) return average_backward(*pool, in_slope, out_slope);
    const std::size_t map =
        static_cast<std::size_t>(n) * static_cast<std::size_t>(slopes_[i + 1].shape().c) + static_cast<std::size_t>(c);
    const int outputs = out_slope.h * out_slope.w;
    const int* places = max_places_[i].data() + map * static_cast<std::size_t>(outputs);
    for (int o = 0; o < outputs; ++o) in_slope.values[places[o]] += out_slope.values[o];
  } else if (std::holds_alternative<Add>(layers_[i])) {
    std::copy_n(out_slope.values, size, in_slope.values);
  } else {
    const T* scale = &scales_[i].at(n, c);
    for (int e = 0; e < size; ++e) in_slope.values[e] = out_slope.values[e] * scale[e];
  }
}

template <class T>
void ChannelLayers<T>::normalise(std::size_t i, int c, const Pass& pass) {
  const auto& layer = std::get<BatchNorm>(layers_[i]);
  const std::span<HostParameter<T>, 4> parameters = norm(i);
  T& running_mean = parameters[2].value.at(c, 0);
  T& running_variance = parameters[3].value.at(c, 0);
  const int size = values_[i].shape().h * values_[i].shape().w;
  auto mean = static_cast<double>(running_mean);
  auto variance = static_cast<double>(running_variance);
  if (pass.training) {
    const double count = static_cast<double>(spec_.batch) * size;
    mean = sum_over(values_[i], c, [](double x) { return x; }) / count;
    const double squares = sum_over(values_[i], c, [&](double x) { return (x - mean) * (x - mean); });
    variance = squares / count;
    const auto momentum = static_cast<double>(layer.momentum);
    const auto average = [&](T& running, double value) {
      running = static_cast<T>((1.0 - momentum) * static_cast<double>(running) + momentum * value);
    };
    average(running_mean, mean);
    average(running_variance, squares / std::max(1.0, count - 1.0));
  }
  const double inverse = 1.0 / std::sqrt(variance + static_cast<double>(layer.epsilon));
  moments_[i].mean[c] = mean;
  moments_[i].inverse[c] = inverse;
  const double factor = inverse * static_cast<double>(parameters[0].value.at(c, 0));
  const auto bias = static_cast<double>(parameters[1].value.at(c, 0));
  for (int n = 0; n < spec_.batch; ++n) {
    const T* x = &values_[i].at(n, c);
    T* y = &values_[i + 1].at(n, c);
    for (int e = 0; e < size; ++e) y[e] = static_cast<T>((static_cast<double>(x[e]) - mean) * factor + bias);
  }
}

/// With y' = (x - mean) * inverse: dx = weight * inverse * (dy - mean of dy - y' * mean of (dy * y')) (Ioffe and
/// Szegedy, ICML 2015).
template <class T>
void ChannelLayers<T>::normalise_backward(std::size_t i, int c) {
  const double mean = moments_[i].mean[c];
  const double inverse = moments_[i].inverse[c];
  const int size = values_[i].shape().h * values_[i].shape().w;
  const double count = static_cast<double>(spec_.batch) * size;
  double sum = 0.0;
  double products = 0.0;
  for (int n = 0; n < spec_.batch; ++n) {
    const T* x = &values_[i].at(n, c);
    const T* dy = &slopes_[i + 1].at(n, c);
    for (int e = 0; e < size; ++e) {
      sum += static_cast<double>(dy[e]);
      products += static_cast<double>(dy[e]) * (static_cast<double>(x[e]) - mean) * inverse;
    }
  }
  const std::span<HostParameter<T>, 4> parameters = norm(i);
  parameters[0].gradient.at(c, 0) = static_cast<T>(products);
  parameters[1].gradient.at(c, 0) = static_cast<T>(sum);
  const double factor = static_cast<double>(parameters[0].value.at(c, 0)) * inverse;
  for (int n = 0; n < spec_.batch; ++n) {
    const T* x = &values_[i].at(n, c);
    const T* dy = &slopes_[i + 1].at(n, c);
    T* dx = &slopes_[i].at(n, c);
    for (int e = 0; e < size; ++e) {
      const double normal = (static_cast<double>(x[e]) - mean) * inverse;
      dx[e] = static_cast<T>(factor * (static_cast<double>(dy[e]) - sum / count - normal * products / count));
    }
  }
}

template class ChannelLayers<float>;
template class ChannelLayers<double>;

}  // namespace convoy
