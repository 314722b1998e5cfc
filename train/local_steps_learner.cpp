#include "train/local_steps_learner.hpp"

#include <cmath>
#include <utility>

#include "train/model_arithmetic.hpp"

namespace convoy {

int ExchangePeriod::at(int epoch, double rate) const {
  if (most == 0 || epoch < warm_up || rate >= full_rate) return steps;
  const double grown = steps * (full_rate / rate) * (full_rate / rate);  // infinite at a rate of 0
  return grown < most ? static_cast<int>(grown) : most;
}

BatchLoss LocalStepsLearner::accumulate(const Images& images, const Labels& labels, const Pass& pass) {
  std::vector<Replica::Task> tasks = tasks_of(images, labels, pass);
  invariant(tasks.size() == replica_count(), "a step has a batch for each replica");
  std::vector<BatchLoss> losses(tasks.size());
  std::size_t begun = 0;
  for (std::size_t r = 0; r < tasks.size(); ++r) {
    if (!takes_part(r)) continue;
    tasks[r].local = true;
    tasks[r].own_moments = mean_.progress != whole_;
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
  const int epoch = stands_.epoch;
  stands_ = after;
  const bool ends_epoch = after.epoch != epoch || after.batch == 0;
  if (ends_epoch || after.batch - mean_.progress.batch >= period_.at(epoch, step.learning_rate)) {
    exchange(ends_epoch || after.batch - whole_.batch >= period_.moments);
  }
}

void LocalStepsLearner::exchange(bool moments) {
  std::vector<std::optional<ModelState>> models(replica_count());
  for (std::size_t r = 0; r < models.size(); ++r) assign(r, r).begin_model(given_, moments);
  for (std::size_t left = models.size(); left > 0;) {
    advance([&](std::size_t task, Replica::Result&& result) {
      models[task] = std::move(result.model);
      --left;
    });
  }
  std::vector<ModelState> trained;
  for (std::optional<ModelState>& model : models) {
    if (model) trained.push_back(rounded(*std::move(model), cut_, type_));
  }
  if (trained.empty()) {
    stands_ = whole_ = mean_.progress;
    throw Rewound(stands_);
  }
  ModelState mean = mean_of(std::move(trained));
  if (type_ != NumberType::fp32) {
    for (std::size_t s = 0; s < cut_.trunk.size(); ++s) {
      add_trained(cut_.trunk[s], mean_.model->trunk[s], mean.trunk[s]);
    }
  }
  if (moments) {
    whole_ = stands_;
  } else {
    take_moments(*mean_.model, mean);
  }
  if (!outer_.is_mean()) mean = outer_step(outer_, cut_, *mean_.model, std::move(mean));
  go_on_from({std::make_shared<const ModelState>(std::move(mean)), stands_});
}

void LocalStepsLearner::go_on_from(TrainingState mean) {
  mean_ = std::move(mean);
  given_ = mean_.model;
  if (type_ != NumberType::fp32) given_ = std::make_shared<const ModelState>(rounded(*given_, cut_, type_));
}

void LocalStepsLearner::carry_in(NumberType type) {
  invariant(type == NumberType::fp32 || type == NumberType::bf16, "models travel in fp32 or bf16");
  type_ = type;
  for (std::size_t r = 0; r < replica_count(); ++r) replica(r).carry_in(type);
  if (mean_.model) go_on_from(std::move(mean_));
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
  go_on_from(std::move(from));
  stands_ = whole_ = mean_.progress;
}

}  // namespace convoy
