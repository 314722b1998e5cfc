// The third seam: the training loop drives a learner. A learner computes the loss and the gradients of a batch, and
// updates the parameters. It hides from the loop which machines compute and how a lost machine is replaced.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/images.hpp"
#include "core/shard_state.hpp"
#include "core/tensor.hpp"
#include "model/checkpoint.hpp"
#include "model/heads.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// Thrown when a learner has lost members and gone back to an earlier step. Its state is that of training at `to`, and
/// the loop can go on from there.
class Rewound : public std::exception {
 public:
  explicit Rewound(const Progress& to) : to_(to) {}
  const Progress& to() const { return to_; }
  const char* what() const noexcept override { return "the learner went back to an earlier step"; }

 private:
  Progress to_;
};

/// A training step calls accumulate(), gradient_squares() if the update needs it, and apply(). Each of them, and
/// state(), throws Rewound if members were lost and steps must be repeated, and PeerLost if the learner cannot go on.
class Learner {
 public:
  virtual ~Learner() = default;

  /// Runs forward pass, loss and backward pass of a training batch. `labels` has those of each image. The learner keeps
  /// the gradients of the mean loss; they replace the gradients of the batch before.
  virtual BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) = 0;

  // The training loop calls give() and take() in the place of accumulate(), so that a learner can compute several
  // batches at once.
  /// How many batches the learner wants to have beyond the one of the next update.
  virtual int ahead() const { return 0; }
  /// Gives the learner a batch. The caller must not give more than ahead() + 1 batches before it calls take().
  virtual void give(const Images& images, const Labels& labels, const Pass& pass) {
    loss_ = accumulate(images, labels, pass);
  }
  /// Returns the loss of a batch that was given and whose gradients are now those of the learner, not necessarily the
  /// oldest. apply() follows.
  virtual BatchLoss take() { return loss_; }
  /// How many updates came between the time when the weights were read from which the last take()'s gradients were
  /// computed, and their own update. Nothing for a learner whose gradients are never stale.
  virtual std::optional<long> staleness() const { return std::nullopt; }

  /// The sum of the squares of all gradients. The Pass of accumulate() must have `squares` set.
  virtual double gradient_squares() = 0;
  /// Updates all parameters. `after` is the progress of training after the update.
  virtual void apply(const UpdateStep& step, const Progress& after) = 0;
  /// Waits until the members have finished what they were given, up to the update before the last accumulate().
  virtual void settle() = 0;
  /// The first stage or dense layer that an update left with values that are not finite, and its step; nothing if none
  /// is known. See Trunk::broken().
  virtual std::optional<Broken> broken() const = 0;

  /// The outputs of the main head in testing, before its loss: (batch, classes). The tensor belongs to the learner and
  /// is valid until the next call. If members are lost, the call repeats itself, or throws Rewound if steps were done
  /// since the last state() or load().
  virtual const Tensor& outputs(const Images& images) = 0;
  /// The loss in testing over the first `count` images of the last outputs().
  virtual BatchLoss test_loss(const Labels& labels, int count) = 0;

  /// Whether the learner has one model, which state(), outputs() and a checkpoint need. Several copies of the net that
  /// train by themselves are none until they are joined; the training loop goes on until they are before it saves,
  /// tests or ends.
  virtual bool has_model() const { return true; }
  /// All parameters with the optimizer's moments.
  virtual std::shared_ptr<const ModelState> state() = 0;
  /// Sets all parameters and moments, and goes on from the progress of training.
  virtual void load(TrainingState from) = 0;

  /// The last complete state that the learner keeps in case it loses members; it is valid until the next call. nullptr
  /// if the learner keeps none.
  virtual const TrainingState* kept() const { return nullptr; }

  /// The times of each member since the last call.
  virtual std::vector<MemberTime> take_times() = 0;

 private:
  BatchLoss loss_;  ///< of the batch that was given
};

/// A learner for one given trunk, either in this process or on the members of one plan. It does not handle lost
/// members: PeerLost passes through.
class NetLearner : public Learner {
 public:
  /// `place` is where this machine computes the heads. The trunk must outlive the learner, or be replaced with use().
  NetLearner(Trunk& trunk, const Cut& cut, int batch, const HeadPlace& place = {});

  /// Changes to another trunk of the same net. The caller must then load the state.
  void use(Trunk& trunk) { trunk_ = &trunk; }
  Trunk& trunk() { return *trunk_; }
  Heads& heads() { return heads_; }

  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override;
  double gradient_squares() override;
  void apply(const UpdateStep& step, const Progress& after = {}) override;
  void settle() override { trunk_->settle(); }
  std::optional<Broken> broken() const override;
  const Tensor& outputs(const Images& images) override;
  BatchLoss test_loss(const Labels& labels, int count) override;
  std::shared_ptr<const ModelState> state() override;
  void load(TrainingState from) override;
  std::vector<MemberTime> take_times() override { return trunk_->take_times(); }

 private:
  Trunk* trunk_;
  Heads heads_;
  long step_ = 0;     ///< of the last accumulate()
  long updated_ = 0;  ///< the step of the last apply()
};

}  // namespace convoy
