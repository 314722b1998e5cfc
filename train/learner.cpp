#include "train/learner.hpp"

#include <utility>

namespace convoy {

NetLearner::NetLearner(Trunk& trunk, const Cut& cut, int batch, const HeadPlace& place)
    : trunk_(&trunk), heads_(cut, batch, place) {}

BatchLoss NetLearner::accumulate(const Images& images, const Labels& labels, const Pass& pass) {
  BatchLoss loss;
  step_ = pass.step;
  trunk_->begin(images, pass);
  while (const auto samples = trunk_->next_outputs()) {
    heads_.forward(trunk_->outputs(), pass, *samples);
    const BatchLoss part = heads_.loss(labels, images.shape().n, *samples);
    loss.sum += part.sum;
    loss.correct += part.correct;
    trunk_->backward(heads_.backward(*samples), *samples);
  }
  heads_.backward_weights();
  return loss;
}

double NetLearner::gradient_squares() { return trunk_->gradient_squares() + heads_.gradient_squares(); }

void NetLearner::apply(const UpdateStep& step, const Progress&) {
  trunk_->update(step);
  heads_.update(step);  // runs while the trunk's members finish the backward pass
  updated_ = step_;
}

std::optional<Broken> NetLearner::broken() const {
  if (auto stage = trunk_->broken()) return stage;
  const std::string layer = heads_.broken();
  return layer.empty() ? std::nullopt : std::optional(Broken{.layer = layer, .step = updated_});
}

const Tensor& NetLearner::outputs(const Images& images) {
  trunk_->forward(images, {});
  heads_.forward(trunk_->outputs(), {});
  return heads_.outputs();
}

BatchLoss NetLearner::test_loss(const Labels& labels, int count) { return heads_.loss(labels, count); }

std::shared_ptr<const ModelState> NetLearner::state() {
  return std::make_shared<const ModelState>(ModelState{trunk_->snapshot(), heads_.states()});
}

void NetLearner::load(TrainingState from) {
  trunk_->load(from.model->trunk);
  heads_.load(from.model->head);
}

}  // namespace convoy
