// Local SGD: each replica trains by itself, and from time to time all go on from the mean of their models (Stich, Local
// SGD Converges Fast and Communicates Little, ICLR 2019), for links that are too slow for the weights of every step.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "train/outer_step.hpp"
#include "train/replica_learner.hpp"

namespace convoy {

/// A step takes a batch for each replica, and each replica updates its own weights by its own batch. After every
/// `period` steps of an epoch, and at its end, the replicas exchange their models: each goes on from the mean of all,
/// which is that of the weights, of the running averages and of the optimizer's moments. Between two exchanges no
/// weights and no gradients travel.
///   - With one replica, training is the same to the bit as on one machine.
///   - With an outer step the weights go on from where it leads instead of the mean (train/outer_step.hpp).
///   - With a period of 1 and SGD, with or without momentum, a step is the same as that of JoinLearner, up to rounding,
///     because the update is linear in the gradient. With Adam it is not.
///   - Between two exchanges there is no one model, so that checkpoints, tests and the end of a run wait for the next
///     one.
///
/// A replica that loses a member goes on from the last mean, and so does one that has lost all of them and is given new
/// ones; what it did since is lost. The mean is that of the replicas that have trained since. If none has, Rewound goes
/// back to the last mean.
class LocalStepsLearner : public ReplicaLearner {
 public:
  /// The cut of the replicas, of which there are `parts`, is `cut`, with the optimizer's moments; it must outlive the
  /// learner. `place`: see NetLearner.
  LocalStepsLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts, int period,
                    const HeadPlace& place = {}, OuterStep outer = {})
      : ReplicaLearner(std::move(replicas), cut, batch, parts, place), cut_(cut), period_(period), outer_(outer) {}

  /// `images` and `labels` have a batch for each replica, one after another. The loss is that of the replicas that have
  /// slaves, as if all images had the same.
  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override;
  /// Gradients cannot be clipped by their norm, since each replica has its own.
  double gradient_squares() override;
  void apply(const UpdateStep& step, const Progress& after) override;
  void settle() override;
  std::optional<Broken> broken() const override;
  bool has_model() const override { return stands_ == mean_.progress; }
  std::shared_ptr<const ModelState> state() override { return mean_.model; }
  void load(TrainingState from) override;
  const TrainingState* kept() const override { return &mean_; }

 private:
  std::shared_ptr<const ModelState> weights() override { return mean_.model; }
  void exchange();

  const Cut& cut_;
  int period_;
  OuterStep outer_;
  Progress stands_;
  TrainingState mean_;  ///< of all replicas, after their last exchange and its outer step
};

}  // namespace convoy
