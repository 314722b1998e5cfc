#include "train/outer_step.hpp"

#include <memory>
#include <utility>

namespace convoy {
namespace {

/// The form of a model without moments, all values zero.
ModelState zeros_like(const ModelState& model) {
  ModelState zeros;
  for (const ShardState& stage : model.trunk) {
    ShardState& to = zeros.trunk.emplace_back();
    for (const Parameter& each : stage.parameters) to.parameters.push_back({Tensor(each.value.shape(), 0.0F), {}});
  }
  for (const DenseState<float>& dense : model.head) {
    zeros.head.push_back(
        {dense.name, {Tensor(dense.weights.value.shape(), 0.0F), {}}, {Tensor(dense.bias.value.shape(), 0.0F), {}}});
  }
  return zeros;
}

/// `values` has the mean, and gets the weights after the step.
void step_tensor(const OuterStep& step, const Tensor& old, Tensor& values, Tensor& velocity) {
  const auto momentum = static_cast<float>(step.momentum);
  const auto rate = static_cast<float>(step.rate);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float from = old.data()[i];
    const float moved = from - values.data()[i];
    float& v = velocity.data()[i];
    v = momentum * v + moved;
    values.data()[i] = from - rate * (moved + momentum * v);
  }
}

}  // namespace

ModelState outer_step(const OuterStep& step, const Cut& cut, const ModelState& old, ModelState mean) {
  ModelState velocity = old.outer ? *old.outer : zeros_like(old);
  for (std::size_t s = 0; s < mean.trunk.size(); ++s) {
    const std::vector<ParameterSpec> specs = parameters_of(cut.trunk[s], cut.trunk[s].conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (!specs[p].trained) continue;
      step_tensor(step, old.trunk[s].parameters[p].value, mean.trunk[s].parameters[p].value,
                  velocity.trunk[s].parameters[p].value);
    }
  }
  for (std::size_t d = 0; d < mean.head.size(); ++d) {
    step_tensor(step, old.head[d].weights.value, mean.head[d].weights.value, velocity.head[d].weights.value);
    step_tensor(step, old.head[d].bias.value, mean.head[d].bias.value, velocity.head[d].bias.value);
  }
  mean.outer = std::make_shared<const ModelState>(std::move(velocity));
  return mean;
}

}  // namespace convoy
