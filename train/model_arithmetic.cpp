#include "train/model_arithmetic.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace convoy {
namespace {

/// The values and moments of all parameters.
template <class Model>
auto tensors_in(Model& model) {
  std::vector<decltype(&model.head[0].bias.value)> tensors;
  const auto add = [&](auto& parameter) {
    tensors.push_back(&parameter.value);
    for (auto& moment : parameter.moments) tensors.push_back(&moment);
  };
  for (auto& stage : model.trunk) std::ranges::for_each(stage.parameters, add);
  for (auto& dense : model.head) {
    add(dense.weights);
    add(dense.bias);
  }
  return tensors;
}

}  // namespace

ModelState mean_of(std::vector<ModelState> models) {
  ModelState sum = std::move(models.front());
  const float share = 1.0F / static_cast<float>(models.size());
  const auto sums = tensors_in(sum);
  // Values that all models share, such as those of frozen layers, keep their bits.
  std::vector<bool> shared(sums.size(), true);
  for (const ModelState& model : std::span(models).subspan(1)) {
    const auto others = tensors_in(model);
    for (std::size_t v = 0; v < sums.size(); ++v) {
      shared[v] = shared[v] && std::ranges::equal(sums[v]->span(), others[v]->span());
    }
  }
  for (std::size_t each = 1; each < models.size(); ++each) {
    const auto more = tensors_in(std::as_const(models[each]));
    for (std::size_t v = 0; v < sums.size(); ++v) {
      if (shared[v]) continue;
      float* to = sums[v]->data();
      const float* from = more[v]->data();
      for (std::size_t i = 0; i < sums[v]->size(); ++i) to[i] += from[i];
    }
  }
  for (std::size_t v = 0; v < sums.size(); ++v) {
    if (shared[v]) continue;
    for (float& value : sums[v]->span()) value *= share;
  }
  return sum;
}

ModelState rounded(ModelState model, const Cut& cut, NumberType type) {
  if (type == NumberType::fp32) return model;
  for (std::size_t s = 0; s < model.trunk.size(); ++s) {
    std::vector<Parameter>& parameters = model.trunk[s].parameters;
    const std::vector<ParameterSpec> specs = parameters_of(cut.trunk[s], cut.trunk[s].conv.filters);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!specs[p].trained) continue;
      round_to(type, parameters[p].value.span());
      for (Tensor& moment : parameters[p].moments) round_to(type, moment.span());
    }
  }
  return model;
}

ModelState values_of(const ModelState& model) {
  ModelState values;
  for (const ShardState& stage : model.trunk) {
    ShardState& to = values.trunk.emplace_back();
    for (const Parameter& parameter : stage.parameters) to.parameters.push_back({parameter.value, {}});
  }
  for (const DenseState<float>& dense : model.head) {
    values.head.push_back({dense.name, {dense.weights.value, {}}, {dense.bias.value, {}}});
  }
  return values;
}

void take_moments(const ModelState& from, ModelState& to) {
  for (std::size_t s = 0; s < from.trunk.size(); ++s) {
    for (std::size_t p = 0; p < from.trunk[s].parameters.size(); ++p) {
      to.trunk[s].parameters[p].moments = from.trunk[s].parameters[p].moments;
    }
  }
  for (std::size_t d = 0; d < from.head.size(); ++d) {
    to.head[d].weights.moments = from.head[d].weights.moments;
    to.head[d].bias.moments = from.head[d].bias.moments;
  }
}

}  // namespace convoy
