#include "train/sliced_learner.hpp"

#include <utility>

#include "model/sliced_model.hpp"

namespace convoy {

std::optional<Broken> SlicedLearner::broken() const {
  std::optional<Broken> broken = learner_->broken();
  if (!broken) return broken;
  const std::vector<Stage>& trunk = slices_.cut.trunk;
  for (std::size_t s = slices_.first; s < trunk.size(); ++s) {
    if (trunk[s].name == broken->layer) broken->layer = trunk.back().name;
  }
  return broken;
}

std::shared_ptr<const ModelState> SlicedLearner::state() {
  return std::make_shared<const ModelState>(joined(*learner_->state(), slices_));
}

void SlicedLearner::load(TrainingState from) {
  from.model = std::make_shared<const ModelState>(sliced(*from.model, slices_));
  learner_->load(std::move(from));
}

const TrainingState* SlicedLearner::kept() const {
  const TrainingState* kept = learner_->kept();
  if (kept == nullptr) return nullptr;
  if (kept->model != seen_) {
    seen_ = kept->model;
    kept_.model = std::make_shared<const ModelState>(joined(*seen_, slices_));
  }
  kept_.progress = kept->progress;
  return &kept_;
}

}  // namespace convoy
