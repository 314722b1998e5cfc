// A small model with random values, and checkpoints of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "model/checkpoint.hpp"

namespace convoy {

inline Cut small_net(int filters = 3) {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = 2,
                .height = 4,
                .width = 4,
                .conv = {.filters = filters, .kernel_h = 3, .kernel_w = 3},
                .after = {Activation::relu}}};
  cut.heads = {{.maps = {filters, 2, 2},
                .layers = {{.name = "dense1", .spec = Dense{4}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  return cut;
}

template <class Model, class Visit>
void visit_tensors(Model& model, Visit visit) {
  for (auto& s : model.trunk) {
    for_each_tensor(s, visit);
  }
  for (auto& s : model.head) {
    for (auto* parameter : {&s.weights, &s.bias}) {
      visit(parameter->value);
      for (auto& moment : parameter->moments) visit(moment);
    }
  }
}

inline ModelState drawn(const Cut& cut, std::uint64_t seed) {
  ModelState model;
  for (const Stage& stage : cut.trunk) model.trunk.push_back(zero_state(stage, stage.conv.filters));
  model.head = Heads(cut, 1).states();
  Random random(seed, 0);
  visit_tensors(model, [&](Tensor& tensor) {
    for (float& value : tensor.span()) value = random.normal();
  });
  return model;
}

inline std::vector<float> all_values(const ModelState& model) {
  std::vector<float> values;
  visit_tensors(model, [&](const Tensor& t) { values.insert(values.end(), t.span().begin(), t.span().end()); });
  return values;
}

inline const RunIdentity kRun{.fingerprint = "net seed batch data",
                              .length = {.epochs = 9, .batches = 100, .images = 50}};

inline TrainingState state_after(int batch) {
  return {.model = std::make_shared<const ModelState>(drawn(small_net(), static_cast<std::uint64_t>(batch))),
          .progress = {.epoch = 2, .batch = batch, .epoch_loss = 0.1 + batch, .epoch_correct = 17}};
}

inline void write_sample(const std::string& folder, int batch) {
  write_checkpoint(folder, small_net(), state_after(batch), kRun);
}

}  // namespace convoy
