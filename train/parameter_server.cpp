#include "train/parameter_server.hpp"

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

}  // namespace

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
