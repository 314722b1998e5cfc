// The training loop.
#pragma once

#include <atomic>
#include <functional>

#include "data/batches.hpp"
#include "nets/graph/net.hpp"
#include "train/learner.hpp"
#include "train/observer.hpp"

namespace convoy {

/// Does a training step on one batch: forward pass, loss, backward pass, update. `update` returns the optimizer's step
/// for the norm of all gradients, which is 0 unless pass.squares is set. `after` returns the progress of training after
/// a step with the given loss. Throws the errors of the learner's calls.
BatchLoss train_step(Learner& learner, const Images& images, const Labels& labels, const Pass& pass,
                     const std::function<UpdateStep(double gradient_norm)>& update,
                     const std::function<Progress(const BatchLoss&)>& after = {});

/// Finishes a training step whose batch the learner already has; see train_step(). `clips` says whether `update` needs
/// the norm.
BatchLoss finish_step(Learner& learner, bool clips, const std::function<UpdateStep(double gradient_norm)>& update,
                      const std::function<Progress(const BatchLoss&)>& after = {});

struct Evaluation {
  double loss = 0.0;      ///< mean
  double accuracy = 0.0;  ///< fraction
  int images = 0;
};
/// The sum of the results of batches of a test, in their order.
class EvaluationSum {
 public:
  /// Adds the loss over the `count` images of the next batch. Throws Diverged if it is not finite.
  void add(const BatchLoss& loss, int count);
  const Evaluation& result() const { return result_; }

 private:
  BatchLoss sum_;
  Evaluation result_;
};
/// The results of one batch of a test.
struct TestedBatch {
  const Tensor& outputs;  ///< (batch, classes)
  const std::vector<int>& labels;
  int count = 0;  ///< number of samples that are images; the rest of the batch is padding
};
/// A function that is called after each batch of a test, with the result so far; it returns false to end the test.
using AfterBatch = std::function<bool(const Evaluation& so_far, const TestedBatch& batch)>;
/// Tests on a whole data set. Throws Diverged if the loss is not finite.
Evaluation evaluate(Learner& learner, const Batches& batches, const AfterBatch& after_batch = {});

struct Training {
  const Net& net;
  const Batches& training;
  const Batches& test;
  std::uint64_t seed = 0;
  double rate_scale = 1.0;                ///< factor of the net's learning rate
  long max_steps = 0;                     ///< total number of steps at which training stops; 0 for no limit
  double checkpoint_seconds = 60.0;       ///< time between checkpoints, in addition to those at the end of each epoch
  const std::atomic<bool>& stop;          ///< when set, training finishes the current step and returns
  std::atomic<bool>* save_now = nullptr;  ///< when set, a checkpoint is saved after the step, and the flag is reset
  /// Counts the energy of a step that took `seconds`, by the members' times in it, and returns the energy of the run so
  /// far. With 0 seconds it counts nothing.
  std::function<EnergyReport(const std::vector<MemberTime>& times, double seconds)> energy = {};
  /// The best epoch before training was resumed from a checkpoint.
  BestEpoch best = {};
  /// Adds the teacher's outputs for the images of a batch to their labels.
  std::function<void(int epoch, int index, const Images&, Labels&)> teach = {};
  /// Called at the end of a cycle of the schedule `snapshots`, with the number of the cycle and that of the epoch, both
  /// from 1.
  std::function<void(int cycle, int epoch, const ModelState&)> save_snapshot = {};
  /// Called when the test accuracy of an epoch is higher than in all epochs before.
  std::function<void(const BestEpoch&, const ModelState&)> save_best = {};
};

struct Outcome {
  Progress progress;
  bool interrupted = false;
  bool out_of_patience = false;  ///< whether it ended because accuracy had not risen for net.training.patience epochs
  long steps = 0;                ///< steps done in all epochs
  BestEpoch best;
  double test_accuracy = -1.0;               ///< after the last complete epoch; negative if no epoch is complete
  std::optional<Evaluation> last_test = {};  ///< of the final model; empty unless training ended with an epoch
  std::vector<MemberTime> times;             ///< times of each member in all steps
  std::optional<Staleness> staleness;
  double seconds = 0.0;
};

/// Writes a checkpoint.
using Save = std::function<void(const TrainingState&)>;

/// Trains from `start` on. Calls `save` at the end of each epoch, every training.checkpoint_seconds, and when training
/// stops; without `save`, it asks the learner for no state. If the learner goes back to an earlier step, the loop
/// repeats the steps from there with the same images and random numbers. Throws Diverged if a loss, a weight or a
/// moment is not finite, and PeerLost if the learner cannot go on; before that, it saves the state that the learner
/// kept.
Outcome train(const Training& training, Learner& learner, TrainingState start, const Observers& observers,
              const Save& save);

}  // namespace convoy
