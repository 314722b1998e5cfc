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

/// The number of steps between two exchanges. Where it may grow, it does so as the inverse square of the learning rate,
/// since replicas drift apart less at a small rate (Gu et al., A Quadratic Synchronization Rule for Distributed Deep
/// Learning, ICLR 2024).
struct ExchangePeriod {
  int steps = 1;           ///< at full_rate, and during the warm-up
  int most = 0;            ///< up to which the number grows; 0 if it does not
  double full_rate = 0.0;  ///< the learning rate of the training, before its schedule
  double warm_up = 0.0;    ///< epochs
  /// The fewest steps between two exchanges that include the moments; with 0 each exchange does.
  int moments = 0;
  /// Returns the number in an epoch, counted from 0, at the learning rate of a step.
  int at(int epoch, double rate) const;
};

/// The fewest steps between two exchanges of moments in a training. An update by SGD is linear in the moments, so that
/// the mean of the weights is about the same whether each replica has its own moments or the mean of all. An exchange
/// of weights alone takes half of the bytes with SGD, and a third with Adam.
constexpr int kMomentSteps = 32;

/// A step takes a batch for each replica, and each replica updates its own weights by its own batch. After every period
/// of an epoch, and at its end, the replicas exchange their models: each goes on from the mean of all weights and
/// running averages. At the end of an epoch, and at the first exchange after ExchangePeriod::moments steps, each goes
/// on from the mean of the optimizer's moments, too; after the other exchanges it goes on with its own. Between two
/// exchanges no weights and no gradients travel.
///   - With one replica, training in fp32 is the same to the bit as on one machine.
///   - In bf16 (carry_in) a replica is given the mean rounded, and answers with what its weights have changed since,
///     and with its moments where they are due, rounded; the mean itself is not rounded.
///   - With an outer step the weights go on from where it leads instead of the mean (train/outer_step.hpp).
///   - With a period of 1 and SGD, with or without momentum, a step is the same as that of JoinLearner, up to rounding,
///     because the update is linear in the gradient. With Adam it is not.
///   - Between two exchanges of moments there is no one model, so that checkpoints, tests and the end of a run wait for
///     the next one.
///
/// A replica that loses a member, or whose members change, goes on from the last mean, with the mean of the moments as
/// they were exchanged last; its steps since the last mean are lost. The next mean is that of the replicas that have
/// trained since. If no replica has, Rewound goes back to the last mean.
class LocalStepsLearner : public ReplicaLearner {
 public:
  /// The cut of the replicas, of which there are `parts`, is `cut`, with the optimizer's moments; it must outlive the
  /// learner. `place`: see NetLearner.
  LocalStepsLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts,
                    const ExchangePeriod& period, const HeadPlace& place = {}, OuterStep outer = {})
      : ReplicaLearner(std::move(replicas), cut, batch, parts, place), cut_(cut), period_(period), outer_(outer) {}

  /// From now on, the stages' weights and moments travel in this type: fp32 or bf16. The range of bf16 is large enough
  /// for the changes of a few steps and for Adam's moments.
  void carry_in(NumberType type);
  /// `images` and `labels` have a batch for each replica, one after another. The loss is that of the replicas that have
  /// slaves, as if all images had the same.
  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override;
  /// Gradients cannot be clipped by their norm, since each replica has its own.
  double gradient_squares() override;
  void apply(const UpdateStep& step, const Progress& after) override;
  void settle() override;
  std::optional<Broken> broken() const override;
  bool has_model() const override { return stands_ == whole_; }
  std::shared_ptr<const ModelState> state() override { return mean_.model; }
  void load(TrainingState from) override;
  const TrainingState* kept() const override { return &mean_; }

 private:
  std::shared_ptr<const ModelState> weights() override { return given_; }
  void exchange(bool moments);
  void go_on_from(TrainingState mean);

  const Cut& cut_;
  ExchangePeriod period_;
  OuterStep outer_;
  Progress stands_;
  NumberType type_ = NumberType::fp32;
  Progress whole_;                           ///< the last point of training at which all replicas had mean_'s moments
  TrainingState mean_;                       ///< of all replicas, after their last exchange and its outer step
  std::shared_ptr<const ModelState> given_;  ///< mean_'s model as replicas are given it, rounded to type_
};

}  // namespace convoy
