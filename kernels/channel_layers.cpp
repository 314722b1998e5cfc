#include "kernels/channel_layers.hpp"

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "kernels/activation.hpp"

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

/// Rows or columns of a map under one position of a window, cut at the map's borders.
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
        if (in.values[y * in.w + x] > in.values[best]) best = y * in.w + x;
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

}  // namespace

template <class T>
ChannelLayers<T>::ChannelLayers(const Stage& stage, FilterRange filters, int batch)
    : layers_(stage.after), first_filter_(filters.first), max_places_(layers_.size()), scales_(layers_.size()) {
  Shape shape = conv_shape(stage, batch, filters.count);
  values_.emplace_back(shape, T{0});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (std::holds_alternative<Dropout>(layers_[i])) scales_[i] = BasicTensor<T>(shape, T{1});
    if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
      shape = pooled_shape(*pool, shape);
      if (pool->kind == PoolKind::max) max_places_[i].resize(shape.size());
    }
    values_.emplace_back(shape, T{0});
  }
  for (const BasicTensor<T>& value : values_) slopes_.emplace_back(value.shape(), T{0});
}

template <class T>
void ChannelLayers<T>::forward(int first, int last, const Pass& pass) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (int n = first; n < last; ++n) {
      for (int c = 0; c < values_[i].shape().c; ++c) forward_layer(i, n, c, pass);
    }
  }
}

template <class T>
void ChannelLayers<T>::forward_layer(std::size_t i, int n, int c, const Pass& pass) {
  const Map<T> in = map_of(values_[i], n, c);
  const Map<T> out = map_of(values_[i + 1], n, c);
  const int size = in.h * in.w;
  if (const auto* activation = std::get_if<Activation>(&layers_[i])) {
    for (int e = 0; e < size; ++e) out.values[e] = activate(*activation, in.values[e]);
  } else if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
    if (pool->kind == PoolKind::average) return average_forward(*pool, in, out);
    const std::size_t map =
        static_cast<std::size_t>(n) * static_cast<std::size_t>(values_[i + 1].shape().c) + static_cast<std::size_t>(c);
    max_forward(*pool, in, out, max_places_[i].data() + map * static_cast<std::size_t>(out.h * out.w));
  } else {
    const auto& dropout = std::get<Dropout>(layers_[i]);
    T* scale = &scales_[i].at(n, c);
    for (int e = 0; e < size; ++e) {
      scale[e] = pass.training
                     ? static_cast<T>(dropout_scale(pass.seed, dropout.stream, dropout.rate, n, first_filter_ + c, e))
                     : T{1};
      out.values[e] = in.values[e] * scale[e];
    }
  }
}

template <class T>
void ChannelLayers<T>::backward(int first, int last) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    for (int n = first; n < last; ++n) {
      for (int c = 0; c < values_[i].shape().c; ++c) backward_layer(i, n, c);
    }
  }
}

template <class T>
void ChannelLayers<T>::backward_layer(std::size_t i, int n, int c) {
  const Map<T> in_slope = map_of(slopes_[i], n, c);
  const Map<T> out_slope = map_of(slopes_[i + 1], n, c);
  const int size = in_slope.h * in_slope.w;
  if (const auto* activation = std::get_if<Activation>(&layers_[i])) {
    const T* y = &values_[i + 1].at(n, c);
    for (int e = 0; e < size; ++e) in_slope.values[e] = out_slope.values[e] * activation_slope(*activation, y[e]);
  } else if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
    std::fill_n(in_slope.values, size, T{0});
    if (pool->kind == PoolKind::average) return average_backward(*pool, in_slope, out_slope);
    const std::size_t map =
        static_cast<std::size_t>(n) * static_cast<std::size_t>(slopes_[i + 1].shape().c) + static_cast<std::size_t>(c);
    const int outputs = out_slope.h * out_slope.w;
    const int* places = max_places_[i].data() + map * static_cast<std::size_t>(outputs);
    for (int o = 0; o < outputs; ++o) in_slope.values[places[o]] += out_slope.values[o];
  } else {
    const T* scale = &scales_[i].at(n, c);
    for (int e = 0; e < size; ++e) in_slope.values[e] = out_slope.values[e] * scale[e];
  }
}

template class ChannelLayers<float>;
template class ChannelLayers<double>;

}  // namespace convoy
