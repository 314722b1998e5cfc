#include "core/shard_state.hpp"

#include <algorithm>
#include <cmath>

#include "core/wide.hpp"

namespace convoy {
namespace {

void copy_filters(const Tensor& from, int from_first, Tensor& to, int to_first, int count) {
  const std::size_t size = from.shape().sample_size();
  std::copy_n(from.data() + static_cast<std::size_t>(from_first) * size, static_cast<std::size_t>(count) * size,
              to.data() + static_cast<std::size_t>(to_first) * size);
}

Tensor cut(const Tensor& from, FilterRange range) {
  Shape shape = from.shape();
  shape.n = range.count;
  Tensor part(shape);
  copy_filters(from, range.first, part, 0, range.count);
  return part;
}

}  // namespace

std::size_t convolution_parameters(const Stage& stage) {
  if (stage.kind != StageKind::convolution) return 0;
  return stage.conv.bias ? 2 : 1;
}

std::vector<ParameterSpec> parameters_of(const Stage& stage, int filters) {
  const Shape each{filters, 1};
  std::vector<ParameterSpec> specs;
  const float rate = stage.conv.rate;
  const bool trained = rate > 0.0F;
  if (stage.kind == StageKind::convolution)
    specs.push_back({stage.name + ".weight", weight_shape(stage, filters), trained, rate});
  if (stage.conv.bias) specs.push_back({stage.name + ".bias", each, trained, rate});
  for (const ChannelLayer& layer : stage.after) {
    const auto* norm = std::get_if<BatchNorm>(&layer);
    if (norm == nullptr) continue;
    specs.push_back({norm->name + ".weight", each, !norm->frozen(), norm->rate});
    specs.push_back({norm->name + ".bias", each, !norm->frozen(), norm->rate});
    specs.push_back({norm->name + ".running_mean", each, false});
    specs.push_back({norm->name + ".running_var", each, false});
  }
  return specs;
}

std::size_t state_bytes(const Stage& stage, int filters) {
  std::size_t values = 0;
  for (const ParameterSpec& spec : parameters_of(stage, filters)) {
    values += spec.shape.size() * (spec.trained ? 1 + static_cast<std::size_t>(stage.moments) : 1);
  }
  return values * sizeof(float);
}

bool has_parameters(const Stage& stage) { return stage.kind == StageKind::convolution || has_batch_norm(stage); }

bool has_trained_parameters(const Stage& stage) {
  return (stage.kind == StageKind::convolution && stage.conv.rate > 0.0F) || batch_norms(stage) > 0;
}

std::vector<bool> needed_gradients(const std::vector<Stage>& trunk) {
  std::vector<bool> needed(trunk.size());
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    const auto passes_on = [&needed](const Source& source) { return source.stage >= 0 && needed[source.stage]; };
    needed[s] = has_trained_parameters(trunk[s]) || std::ranges::any_of(reads_of(trunk, s), [&](const Sources& from) {
                  return std::ranges::any_of(from, passes_on);
                });
  }
  return needed;
}

bool needs_input_gradient(const std::vector<Stage>& trunk, std::size_t stage) {
  const std::vector<bool> needed = needed_gradients(trunk);
  return std::ranges::any_of(reads_of(trunk, stage)[0],
                             [&needed](const Source& source) { return source.stage >= 0 && needed[source.stage]; });
}

ShardState zero_state(const Stage& stage, int filters) {
  ShardState state;
  const std::vector<ParameterSpec> specs = parameters_of(stage, filters);
  for (const ParameterSpec& spec : specs) {
    const std::size_t moments = spec.trained ? static_cast<std::size_t>(stage.moments) : 0;
    state.parameters.push_back({Tensor(spec.shape, 0.0F), std::vector<Tensor>(moments, Tensor(spec.shape, 0.0F))});
  }
  for (std::size_t p = convolution_parameters(stage); p < specs.size(); p += 4) {
    for (const std::size_t ones : {p, p + 3}) std::ranges::fill(state.parameters[ones].value.span(), 1.0F);
  }
  return state;
}

ShardState slice(const ShardState& whole, FilterRange range) {
  ShardState part;
  for (const Parameter& parameter : whole.parameters) {
    Parameter& some = part.parameters.emplace_back(Parameter{cut(parameter.value, range), {}});
    for (const Tensor& moment : parameter.moments) some.moments.push_back(cut(moment, range));
  }
  return part;
}

void paste(const ShardState& part, FilterRange range, ShardState& whole) {
  invariant(part.parameters.size() == whole.parameters.size(), "both states belong to the same stage");
  for (std::size_t p = 0; p < part.parameters.size(); ++p) {
    const Parameter& from = part.parameters[p];
    Parameter& to = whole.parameters[p];
    copy_filters(from.value, 0, to.value, range.first, range.count);
    for (std::size_t m = 0; m < from.moments.size(); ++m) {
      copy_filters(from.moments[m], 0, to.moments[m], range.first, range.count);
    }
  }
}

void drop_moments(ShardState& state) {
  for (Parameter& parameter : state.parameters) parameter.moments.clear();
}

namespace {

/// Calls combine(value of `from`, value of `state`) for each value of a trained parameter.
template <class Combine>
void for_each_trained(const Stage& stage, const ShardState& from, ShardState& state, const Combine& combine) {
  const std::vector<ParameterSpec> specs = parameters_of(stage, stage.conv.filters);
  invariant(specs.size() == state.parameters.size() && specs.size() == from.parameters.size(),
            "both states belong to the stage");
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (!specs[p].trained) continue;
    const std::span<const float> since = from.parameters[p].value.span();
    const std::span<float> values = state.parameters[p].value.span();
    invariant(since.size() == values.size(), "both states have the same filters");
    for (std::size_t i = 0; i < values.size(); ++i) combine(since[i], values[i]);
  }
}

}  // namespace

void subtract_trained(const Stage& stage, const ShardState& from, ShardState& state) {
  for_each_trained(stage, from, state, [](float since, float& value) { value -= since; });
}

void add_trained(const Stage& stage, const ShardState& from, ShardState& state) {
  for_each_trained(stage, from, state, [](float since, float& value) { value += since; });
}

int moments_of(Optimizer optimizer) { return optimizer == Optimizer::adam ? 2 : 1; }

UpdateStep with_rate(UpdateStep step, float rate) {
  step.learning_rate *= rate;
  return step;
}

namespace {

template <class T>
CONVOY_INLINE bool update_some(const UpdateStep& step, const T* gradient, T* values, T* const* moments,
                               std::size_t first, std::size_t count) {
  const auto rate = static_cast<T>(step.learning_rate);
  const auto momentum = static_cast<T>(step.momentum);
  const auto decay = static_cast<T>(step.weight_decay);
  const auto scale = static_cast<T>(step.gradient_scale);
  const T* g = gradient + first;
  T* w = values + first;
  T* v = moments[0] + first;
  FiniteValues<T> seen;  // where v is not finite, w is not either
  if (step.optimizer == Optimizer::sgd) {
    for (std::size_t i = 0; i < count; ++i) {
      v[i] = momentum * v[i] + (scale * g[i] + decay * w[i]);
      w[i] -= rate * v[i];
      seen.add(w[i]);
    }
  } else if (step.optimizer == Optimizer::nesterov) {
    for (std::size_t i = 0; i < count; ++i) {
      const T slope = scale * g[i] + decay * w[i];
      v[i] = momentum * v[i] + slope;
      w[i] -= rate * (slope + momentum * v[i]);
      seen.add(w[i]);
    }
  } else {
    T* s = moments[1] + first;
    const auto beta2 = static_cast<T>(step.beta2);
    const auto epsilon = static_cast<T>(step.epsilon);
    const T mean_scale = rate / static_cast<T>(step.correction1);
    const T square_scale = T{1} / static_cast<T>(step.correction2);
    for (std::size_t i = 0; i < count; ++i) {
      const T slope = scale * g[i] + decay * w[i];
      v[i] = momentum * v[i] + (T{1} - momentum) * slope;
      s[i] = beta2 * s[i] + (T{1} - beta2) * slope * slope;
      w[i] -= mean_scale * v[i] / (std::sqrt(square_scale * s[i]) + epsilon);
      seen.add(w[i]);
      seen.add(s[i]);
    }
  }
  return seen.all_finite();
}

#ifdef CONVOY_WIDE
template <class T>
CONVOY_WIDE bool update_wide(const UpdateStep& step, const T* gradient, T* values, T* const* moments, std::size_t first,
                             std::size_t count) {
  return update_some(step, gradient, values, moments, first, count);
}
#endif

}  // namespace

template <class T>
bool update_values(const UpdateStep& step, const T* gradient, T* values, T* const* moments, std::size_t first,
                   std::size_t count) {
#ifdef CONVOY_WIDE
  if (has_wide_vectors()) return update_wide(step, gradient, values, moments, first, count);
#endif
  return update_some(step, gradient, values, moments, first, count);
}

template bool update_values(const UpdateStep&, const float*, float*, float* const*, std::size_t, std::size_t);
template bool update_values(const UpdateStep&, const double*, double*, double* const*, std::size_t, std::size_t);

}  // namespace convoy
