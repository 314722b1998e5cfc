#include "train/parameter_server.hpp"

#include <algorithm>

#include "kernels/host/matmul.hpp"

namespace convoy {
namespace {

/// Calls visit(layer, parameters) for each stage and each dense layer of one or two models of the same net.
template <class Visit>
void for_each_layer(ModelState& model, const ModelState& gradients, const Cut& cut, const Visit& visit) {
  for (std::size_t s = 0; s < model.trunk.size(); ++s) {
    std::vector<Parameter>& parameters = model.trunk[s].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      visit(cut.trunk[s].name, parameters[p], gradients.trunk[s].parameters[p].value);
    }
  }
  for (std::size_t d = 0; d < model.head.size(); ++d) {
    visit(model.head[d].name, model.head[d].weights, gradients.head[d].weights.value);
    visit(model.head[d].name, model.head[d].bias, gradients.head[d].bias.value);
  }
}

template <class Model>
auto values_of(Model& model) {
  std::vector<decltype(&model.head[0].bias.value)> values;
  for (auto& stage : model.trunk) {
    for (auto& parameter : stage.parameters) values.push_back(&parameter.value);
  }
  for (auto& dense : model.head) values.insert(values.end(), {&dense.weights.value, &dense.bias.value});
  return values;
}

}  // namespace

Cut without_moments(Cut cut) {
  cut.moments = 0;
  for (Stage& stage : cut.trunk) stage.moments = 0;
  return cut;
}

ModelState mean_of(std::vector<ModelState> gradients) {
  ModelState sum = std::move(gradients.front());
  const float share = 1.0F / static_cast<float>(gradients.size());
  const auto sums = values_of(sum);
  for (std::size_t each = 1; each < gradients.size(); ++each) {
    const auto more = values_of(std::as_const(gradients[each]));
    for (std::size_t v = 0; v < sums.size(); ++v) {
      float* to = sums[v]->data();
      const float* from = more[v]->data();
      for (std::size_t i = 0; i < sums[v]->size(); ++i) to[i] += from[i];
    }
  }
  for (Tensor* values : sums) {
    for (float& value : values->span()) value *= share;
  }
  return sum;
}

void ParameterServer::load(const ModelState& model) {
  model_ = model;
  weights_.reset();
  broken_.reset();
}

std::shared_ptr<const ModelState> ParameterServer::weights() {
  if (weights_ != nullptr) return weights_;
  auto weights = std::make_shared<ModelState>();
  for (const ShardState& stage : model_.trunk) {
    ShardState& values = weights->trunk.emplace_back();
    for (const Parameter& parameter : stage.parameters) values.parameters.push_back({parameter.value, {}});
  }
  for (const DenseState<float>& dense : model_.head) {
    weights->head.push_back({dense.name, {dense.weights.value, {}}, {dense.bias.value, {}}});
  }
  return weights_ = std::move(weights);
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
      sum += sum_of_squares(dense->weights.value.span());
      sum += sum_of_squares(dense->bias.value.span());
      ++dense;
    }
    heads += sum;
  }
  return trunk + heads;
}

void ParameterServer::update(const UpdateStep& step, const ModelState& gradients, long number) {
  weights_.reset();
  for_each_layer(model_, gradients, cut_, [&](const std::string& layer, Parameter& parameter, const Tensor& gradient) {
    bool finite = true;
    if (parameter.moments.empty()) {
      parameter.value = gradient;
      finite = all_finite<float>(gradient.span());
    } else {
      std::vector<float*> moments;
      for (Tensor& moment : parameter.moments) moments.push_back(moment.data());
      finite = update_parameter(step, gradient.span(), parameter.value.data(), moments.data());
    }
    if (!finite && !broken_) broken_ = Broken{.layer = layer, .step = number};
  });
}

}  // namespace convoy
