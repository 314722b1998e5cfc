#include "train/parameter_server.hpp"

#include <algorithm>
#include <span>

#include "kernels/host/matmul.hpp"

namespace convoy {
namespace {

/// Calls visit(layer, factor of the learning rate, parameter, gradient) for each parameter of a model.
template <class Visit>
void for_each_layer(ModelState& model, const ModelState& gradients, const Cut& cut, const Visit& visit) {
  for (std::size_t s = 0; s < model.trunk.size(); ++s) {
    std::vector<Parameter>& parameters = model.trunk[s].parameters;
    const std::vector<ParameterSpec> specs = parameters_of(cut.trunk[s], cut.trunk[s].conv.filters);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      visit(cut.trunk[s].name, specs[p].rate, parameters[p], gradients.trunk[s].parameters[p].value);
    }
  }
  std::size_t d = 0;
  for (const CutHead& head : cut.heads) {
    for (const Layer& layer : head.layers) {
      if (!std::holds_alternative<Dense>(layer.spec)) continue;
      visit(layer.name, layer.rate, model.head[d].weights, gradients.head[d].weights.value);
      visit(layer.name, layer.rate, model.head[d].bias, gradients.head[d].bias.value);
      ++d;
    }
  }
}

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

void ParameterServer::load(const ModelState& model) {
  model_ = model;
  weights_.reset();
  broken_.reset();
}

std::shared_ptr<const ModelState> ParameterServer::weights() {
  if (weights_ != nullptr) return weights_;
  return weights_ = std::make_shared<const ModelState>(arrived(values_of(model_)));
}

double ParameterServer::squares(const ModelState& gradients) const {
  double trunk = 0.0;
  for (std::size_t s = 0; s < gradients.trunk.size(); ++s) {
    const ShardState& stage = gradients.trunk[s];
    double sum = 0.0;
    for (std::size_t p = 0; p < stage.parameters.size(); ++p) {
      const bool trained = !model_.trunk[s].parameters[p].moments.empty();
      if (trained) sum += sum_of_squares(stage.parameters[p].value.span());
    }
    trunk += sum;
  }
  double heads = 0.0;
  auto dense = gradients.head.begin();
  for (const CutHead& head : cut_.heads) {
    double sum = 0.0;
    for (const Layer& layer : head.layers) {
      if (!std::holds_alternative<Dense>(layer.spec)) continue;
      if (layer.rate > 0.0F) {
        sum += sum_of_squares(dense->weights.value.span());
        sum += sum_of_squares(dense->bias.value.span());
      }
      ++dense;
    }
    heads += sum;
  }
  return trunk + heads;
}

void ParameterServer::update(const UpdateStep& step, const ModelState& gradients, long number) {
  weights_.reset();
  const auto visit = [&](const std::string& layer, float rate, Parameter& parameter, const Tensor& gradient) {
    bool finite = true;
    if (parameter.moments.empty()) {
      parameter.value = gradient;
      finite = all_finite<float>(gradient.span());
    } else {
      std::vector<float*> moments;
      for (Tensor& moment : parameter.moments) moments.push_back(moment.data());
      finite = update_parameter(with_rate(step, rate), gradient.span(), parameter.value.data(), moments.data());
    }
    if (!finite && !broken_) broken_ = Broken{.layer = layer, .step = number};
  };
  for_each_layer(model_, gradients, cut_, visit);
}

}  // namespace convoy
