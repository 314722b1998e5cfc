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

/// The rows or columns first, first + step, ... below `last` of a map under one position of a window.
struct Span {
  int first;
  int last;
  int step;
};

Span window(int position, int stride, int reach, int pad, int dilation, int extent) {
  const int start = position * stride - pad;
  const int first = start >= 0 ? start : (dilation - -start % dilation) % dilation;
  return {first, std::min(start + reach, extent), dilation};
}

template <class Visit>
void for_each_window(const Pooling& pool, int in_h, int in_w, int out_h, int out_w, Visit visit) {
  for (int y = 0; y < out_h; ++y) {
    const Span rows = window(y, pool.stride_h, pool.reach_h(), pool.pad.top, pool.dilation_h, in_h);
    for (int x = 0; x < out_w; ++x) {
      visit(y * out_w + x, rows, window(x, pool.stride_w, pool.reach_w(), pool.pad.left, pool.dilation_w, in_w));
    }
  }
}

template <class T>
void max_forward(const Pooling& pool, Map<T> in, Map<T> out, int* places) {
  for_each_window(pool, in.h, in.w, out.h, out.w, [&](int o, Span rows, Span columns) {
    int best = rows.first * in.w + columns.first;
    for (int y = rows.first; y < rows.last; y += rows.step) {
      for (int x = columns.first; x < columns.last; x += columns.step) {
        const T value = in.values[y * in.w + x];
        if (value > in.values[best] || std::isnan(value)) best = y * in.w + x;
      }
    }
    places[o] = best;
    out.values[o] = in.values[best];
  });
}

/// Returns the number by which an average divides the sum of the elements in a window.
int divisor_of(const Pooling& pool, Span rows, Span columns) {
  if (pool.kind == PoolKind::average_with_padding) return pool.kernel_h * pool.kernel_w;
  return (rows.last - rows.first) * (columns.last - columns.first);
}

template <class T>
void average_forward(const Pooling& pool, Map<T> in, Map<T> out) {
  for_each_window(pool, in.h, in.w, out.h, out.w, [&](int o, Span rows, Span columns) {
    double sum = 0.0;
    for (int y = rows.first; y < rows.last; ++y) {
      for (int x = columns.first; x < columns.last; ++x) sum += static_cast<double>(in.values[y * in.w + x]);
    }
    out.values[o] = static_cast<T>(sum / divisor_of(pool, rows, columns));
  });
}

template <class T>
void average_backward(const Pooling& pool, Map<T> in_slope, Map<T> out_slope) {
  for_each_window(pool, in_slope.h, in_slope.w, out_slope.h, out_slope.w, [&](int o, Span rows, Span columns) {
    const int count = divisor_of(pool, rows, columns);
    for (int y = rows.first; y < rows.last; ++y) {
      for (int x = columns.first; x < columns.last; ++x) {
        in_slope.values[y * in_slope.w + x] += out_slope.values[o] / static_cast<T>(count);
      }
    }
  });
}

/// Multiplies a map by another one, or by the number `factors[0]`.
template <class T>
void multiply_forward(bool by_points, Map<T> in, const T* factors, Map<T> out) {
  const int size = in.h * in.w;
  for (int e = 0; e < size; ++e) out.values[e] = in.values[e] * factors[by_points ? 0 : e];
}

template <class T>
void multiply_backward(bool by_points, const T* in, const T* factors, Map<T> out_slope, Map<T> in_slope,
                       T* factor_slope) {
  const int size = in_slope.h * in_slope.w;
  double sum = 0.0;
  for (int e = 0; e < size; ++e) {
    const T part = out_slope.values[e] * in[e];
    in_slope.values[e] = out_slope.values[e] * factors[by_points ? 0 : e];
    if (by_points) {
      sum += static_cast<double>(part);
    } else {
      factor_slope[e] = part;
    }
  }
  if (by_points) factor_slope[0] = static_cast<T>(sum);
}

}  // namespace

template <class T>
ChannelLayers<T>::ChannelLayers(const ShardSpec& spec, HostParameters<T>* parameters)
    : layers_(spec.stage.after),
      spec_(spec),
      max_places_(layers_.size()),
      scales_(layers_.size()),
      factor_slopes_(layers_.size()) {
  const std::vector<Shape> taken = added_shapes(spec.stage, spec.batch, spec.filters.count);
  Shape shape = conv_shape(spec.stage, spec.batch, spec.filters.count);
  values_.emplace_back(shape, T{0});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (std::holds_alternative<Dropout>(layers_[i])) scales_[i] = BasicTensor<T>(shape, T{1});
    if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
      shape = pooled_shape(*pool, shape);
      if (pool->kind == PoolKind::max) max_places_[i].resize(shape.size());
    }
    if (sources_of(layers_[i]) != nullptr) {
      if (std::holds_alternative<Multiply>(layers_[i])) factor_slopes_[i] = BasicTensor<T>(taken[added_.size()], T{0});
      add_layers_.push_back(i);
      added_.push_back(nullptr);
    }
    if (const auto* norm = std::get_if<BatchNorm>(&layers_[i])) {
      invariant(parameters != nullptr, "a stage with batch norm has parameters");
      norms_.emplace(i, Norm(*norm, shape, whole_batch(spec), *parameters, norms_.size()));
    }
    values_.emplace_back(shape, T{0});
  }
  for (const BasicTensor<T>& value : values_) slopes_.emplace_back(value.shape(), T{0});
}

template <class T>
SampleRange ChannelLayers<T>::forward(SampleRange samples, const Pass& pass, const Splitter& split) {
  pass_ = pass;
  joins_ = spec_.joins_statistics() && pass.training;
  next_ = 0;
  const SampleRange taken = spec_.taken_by_layers(samples);
  if (taken.count > 0) run(taken, split);
  return spec_.ready_after_forward(samples, pass);
}

/// Runs the layers from next_ on, to the next batch norm whose statistics are joined.
template <class T>
void ChannelLayers<T>::run(SampleRange samples, const Splitter& split) {
  for (; next_ < layers_.size() && !stops_at(next_); ++next_) {
    const std::size_t i = next_;
    if (is_norm(i)) {
      for_channels(i, split, [&](int c) { normalise(i, c); });
      continue;
    }
    split(samples.count, [&](int first, int last) {
      for (int n = samples.first + first; n < samples.first + last; ++n) {
        for (int c = 0; c < values_[i].shape().c; ++c) forward_layer(i, n, c);
      }
    });
  }
}

template <class T>
void ChannelLayers<T>::for_channels(std::size_t i, const Splitter& split,
                                    const std::function<void(int c)>& work) const {
  split(values_[i].shape().c, [&](int first, int last) {
    for (int c = first; c < last; ++c) work(c);
  });
}

template <class T>
const T* ChannelLayers<T>::taken_in(std::size_t i, int n, int c) const {
  const auto number = static_cast<std::size_t>(std::ranges::find(add_layers_, i) - add_layers_.begin());
  invariant(added_[number] != nullptr, "connect is called before forward");
  return &added_[number]->at(n, c);
}

template <class T>
void ChannelLayers<T>::forward_layer(std::size_t i, int n, int c) {
  const Map<T> in = map_of(values_[i], n, c);
  const Map<T> out = map_of(values_[i + 1], n, c);
  const int size = in.h * in.w;
  if (const auto* activation = std::get_if<Activation>(&layers_[i])) {
    activate(*activation, in.values, out.values, static_cast<std::size_t>(size));
  } else if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
    if (pool->kind != PoolKind::max) return average_forward(*pool, in, out);
    const std::size_t map =
        static_cast<std::size_t>(n) * static_cast<std::size_t>(values_[i + 1].shape().c) + static_cast<std::size_t>(c);
    max_forward(*pool, in, out, max_places_[i].data() + map * static_cast<std::size_t>(out.h * out.w));
  } else if (std::holds_alternative<Add>(layers_[i])) {
    const T* other = taken_in(i, n, c);
    for (int e = 0; e < size; ++e) out.values[e] = in.values[e] + other[e];
  } else if (const auto* product = std::get_if<Multiply>(&layers_[i])) {
    multiply_forward(product->by_points, in, taken_in(i, n, c), out);
  } else {
    const auto& dropout = std::get<Dropout>(layers_[i]);
    T* scale = &scales_[i].at(n, c);
    const Origin origin = origin_of(spec_);
    const int number = origin.number_in_batch(n);
    for (int e = 0; e < size; ++e) {
      scale[e] = pass_.training ? static_cast<T>(dropout_scale(pass_.seed, dropout.stream, dropout.rate, number,
                                                               origin.first_filter + c, dropout.spatial ? 0 : e))
                                : T{1};
      out.values[e] = in.values[e] * scale[e];
    }
  }
}

template <class T>
SampleRange ChannelLayers<T>::backward(SampleRange samples, const Splitter& split) {
  samples = spec_.read_by_backward(samples);
  if (samples.count == 0) return samples;
  next_ = layers_.size();
  run_back(samples, split);
  return samples;
}

/// Runs the layers before next_ backward, to the next batch norm whose statistics are joined.
template <class T>
void ChannelLayers<T>::run_back(SampleRange samples, const Splitter& split) {
  for (; next_ > 0 && !stops_at(next_ - 1); --next_) {
    const std::size_t i = next_ - 1;
    if (is_norm(i)) {
      Norm& norm = norms_.at(i);
      // A frozen norm multiplies and adds constants, so no gradient goes through the statistics.
      for_channels(i, split, [&](int c) {
        const auto found = is_frozen(i) ? typename Norm::Slopes{} : norm.find_slopes(values_[i], slopes_[i + 1], c);
        norm.differentiate(values_[i], slopes_[i + 1], slopes_[i], c, found);
      });
      continue;
    }
    split(samples.count, [&](int first, int last) {
      for (int n = samples.first + first; n < samples.first + last; ++n) {
        for (int c = 0; c < values_[i].shape().c; ++c) backward_layer(i, n, c);
      }
    });
  }
}

template <class T>
void ChannelLayers<T>::backward_layer(std::size_t i, int n, int c) {
  const Map<T> in_slope = map_of(slopes_[i], n, c);
  const Map<T> out_slope = map_of(slopes_[i + 1], n, c);
  const int size = in_slope.h * in_slope.w;
  if (const auto* activation = std::get_if<Activation>(&layers_[i])) {
    activate_backward(*activation, &values_[i].at(n, c), &values_[i + 1].at(n, c), out_slope.values, in_slope.values,
                      static_cast<std::size_t>(size));
  } else if (const auto* pool = std::get_if<Pooling>(&layers_[i])) {
    std::fill_n(in_slope.values, size, T{0});
    if (pool->kind != PoolKind::max) return average_backward(*pool, in_slope, out_slope);
    const std::size_t map =
        static_cast<std::size_t>(n) * static_cast<std::size_t>(slopes_[i + 1].shape().c) + static_cast<std::size_t>(c);
    const int outputs = out_slope.h * out_slope.w;
    const int* places = max_places_[i].data() + map * static_cast<std::size_t>(outputs);
    for (int o = 0; o < outputs; ++o) in_slope.values[places[o]] += out_slope.values[o];
  } else if (std::holds_alternative<Add>(layers_[i])) {
    std::copy_n(out_slope.values, size, in_slope.values);
  } else if (const auto* product = std::get_if<Multiply>(&layers_[i])) {
    multiply_backward(product->by_points, &values_[i].at(n, c), taken_in(i, n, c), out_slope, in_slope,
                      &factor_slopes_[i].at(n, c));
  } else {
    const T* scale = &scales_[i].at(n, c);
    for (int e = 0; e < size; ++e) in_slope.values[e] = out_slope.values[e] * scale[e];
  }
}

template <class T>
void ChannelLayers<T>::normalise(std::size_t i, int c) {
  Norm& norm = norms_.at(i);
  if (pass_.training && !is_frozen(i))
    return norm.normalise(values_[i], values_[i + 1], c, norm.find_moments(values_[i], c));
  norm.normalise(values_[i], values_[i + 1], c);
}

// ---- statistics that several shards join ----------------------------------------------------------------------------

template <class T>
std::vector<float> ChannelLayers<T>::moments(const Splitter& split) {
  invariant(joins_ && next_ < layers_.size(), "moments follows the last forward, or normalise of the norm before");
  const Norm& norm = norms_.at(next_);
  std::vector<float> all(2 * static_cast<std::size_t>(norm.channels()));
  for_channels(next_, split, [&](int c) {
    const auto found = norm.find_moments(values_[next_], c);
    all[c] = static_cast<float>(found.mean);
    all[norm.channels() + c] = static_cast<float>(found.variance);
  });
  return all;
}

template <class T>
void ChannelLayers<T>::normalise(std::span<const double> joint, const Splitter& split) {
  const std::size_t i = next_;
  Norm& norm = norms_.at(i);
  invariant(joint.size() == 2 * static_cast<std::size_t>(norm.channels()), "joint moments are of the norm's channels");
  for_channels(i, split, [&](int c) {
    norm.normalise(values_[i], values_[i + 1], c, {joint[c], joint[norm.channels() + c]});
  });
  ++next_;
  run({0, spec_.batch}, split);
}

template <class T>
std::vector<float> ChannelLayers<T>::slopes(const Splitter& split) {
  run_back({0, spec_.batch}, split);
  invariant(joins_ && next_ > 0, "slopes follows the last normalise, or take_slopes of the norm behind");
  const std::size_t i = next_ - 1;
  Norm& norm = norms_.at(i);
  std::vector<float> all(2 * static_cast<std::size_t>(norm.channels()));
  for_channels(i, split, [&](int c) {
    const auto found = norm.find_slopes(values_[i], slopes_[i + 1], c);
    all[c] = static_cast<float>(found.sum);
    all[norm.channels() + c] = static_cast<float>(found.products);
  });
  return all;
}

template <class T>
void ChannelLayers<T>::take_slopes(std::span<const double> joint, const Splitter& split) {
  const std::size_t i = --next_;
  Norm& norm = norms_.at(i);
  invariant(joint.size() == 2 * static_cast<std::size_t>(norm.channels()), "joint slopes are of the norm's channels");
  for_channels(i, split, [&](int c) {
    norm.differentiate(values_[i], slopes_[i + 1], slopes_[i], c, {joint[c], joint[norm.channels() + c]});
  });
  run_back({0, spec_.batch}, split);
}

template class ChannelLayers<float>;
template class ChannelLayers<double>;

}  // namespace convoy
