#include "train/local_steps_learner.hpp"

#include <cmath>
#include <utility>

namespace convoy {

BatchLoss LocalStepsLearner::accumulate(const Images& images, const Labels& labels, const Pass& pass) {
  std::vector<Replica::Task> tasks = tasks_of(images, labels, pass);
  invariant(tasks.size() == replica_count(), "a step has a batch for each replica");
  std::vector<BatchLoss> losses(tasks.size());
  std::size_t begun = 0;
  for (std::size_t r = 0; r < tasks.size(); ++r) {
    if (!takes_part(r)) continue;
    tasks[r].local = true;
    assign(r, r).begin(std::move(tasks[r]));
    ++begun;
  }
  for (std::size_t left = begun; left > 0;) {
    advance([&](std::size_t task, Replica::Result&& result) {
      losses[task] = result.loss;
      --left;
    });
  }
  BatchLoss sum;
  for (const BatchLoss& each : losses) {
    sum.sum += each.sum;
    sum.correct += each.correct;
  }
  if (begun == losses.size()) return sum;
  const double all = static_cast<double>(losses.size()) / static_cast<double>(begun);
  return {.sum = all * sum.sum, .correct = static_cast<int>(std::lround(all * sum.correct))};
}

double LocalStepsLearner::gradient_squares() {
  invariant(false, "replicas that train by themselves have no common gradients");
  return 0.0;
}

void LocalStepsLearner::apply(const UpdateStep& step, const Progress& after) {
  for (std::size_t r = 0; r < replica_count(); ++r) replica(r).update(step);
  stands_ = after;
  // A batch of 0 is the begin of the next epoch.
  if (after.batch % period_ == 0) exchange();
}

void LocalStepsLearner::exchange() {
  std::vector<std::optional<ModelState>> models(replica_count());
  for (std::size_t r = 0; r < models.size(); ++r) assign(r, r).begin_model(mean_.model);
  for (std::size_t left = models.size(); left > 0;) {
    advance([&](std::size_t task, Replica::Result&& result) {
      models[task] = std::move(result.model);
      --left;
    });
  }
  std::vector<ModelState> trained;
  for (std::optional<ModelState>& model : models) {
    if (model) trained.push_back(*std::move(model));
  }
  if (trained.empty()) {
    stands_ = mean_.progress;
    throw Rewound(stands_);
  }
  ModelState mean = mean_of(std::move(trained));
  if (!outer_.is_mean()) mean = outer_step(outer_, cut_, *mean_.model, std::move(mean));
  mean_ = {std::make_shared<const ModelState>(std::move(mean)), stands_};
}

void LocalStepsLearner::settle() {
  for (std::size_t r = 0; r < replica_count(); ++r) replica(r).settle();
}

std::optional<Broken> LocalStepsLearner::broken() const {
  for (std::size_t r = 0; r < replica_count(); ++r) {
    if (auto broken = replica(r).broken()) return broken;
  }
  return std::nullopt;
}

void LocalStepsLearner::load(TrainingState from) {
  mean_ = std::move(from);
  stands_ = mean_.progress;
}

}  // namespace convoy
