// The training loop.
#pragma once

#include <atomic>
#include <functional>

#include "data/batches.hpp"
#include "nets/graph/net.hpp"
#include "train/learner.hpp"
#include "train/observer.hpp"

namespace convoy {

/// One step on one batch: forward, loss, backward, update. `update` makes the update from the norm of all gradients, which
/// is 0 unless pass.squares asks for it. `after` says where training stands when the step has this loss. Throws as the
/// learner's calls do.
BatchLoss train_step(Learner& learner, const Tensor& images, const std::vector<int>& labels, const Pass& pass,
                     const std::function<UpdateStep(double gradient_norm)>& update,
                     const std::function<Progress(const BatchLoss&)>& after = {});

struct Evaluation {
  double loss = 0.0;      ///< mean
  double accuracy = 0.0;  ///< fraction
  int images = 0;
};
/// A batch that was tested.
struct TestedBatch {
  const Tensor& outputs;  ///< (batch, classes)
  const std::vector<int>& labels;
  int count = 0;  ///< of the samples that are images
};
/// Is called after each batch of a test with what was found so far; false ends the test.
using AfterBatch = std::function<bool(const Evaluation& so_far, const TestedBatch& batch)>;
/// Over a whole data set.
Evaluation evaluate(Learner& learner, const Batches& batches, const AfterBatch& after_batch = {});

struct Training {
  const Net& net;
  const Batches& training;
  const Batches& test;
  std::uint64_t seed = 0;
  long max_steps = 0;                     ///< stops after so many steps in all; 0 for no limit
  double checkpoint_seconds = 60.0;       ///< between checkpoints, besides those at the epochs' ends
  const std::atomic<bool>& stop;          ///< finish the step and return
  std::atomic<bool>* save_now = nullptr;  ///< save after the step, and reset
  /// The best epoch so far, where training goes on from a checkpoint.
  BestEpoch best = {};
  /// Is called when an epoch's test accuracy is better than that of all epochs before.
  std::function<void(const BestEpoch&, const ModelState&)> save_best = {};
};

struct Outcome {
  Progress progress;
  bool interrupted = false;
  bool out_of_patience = false;  ///< ended because the test accuracy had not risen for net.training.patience epochs
  long steps = 0;                ///< done, over all epochs
  BestEpoch best;
  double test_accuracy = -1.0;    ///< after the last whole epoch; negative before the first
  std::vector<MemberTime> times;  ///< over all steps
  double seconds = 0.0;
};

/// Writes where training stands.
using Save = std::function<void(const Progress&, const ModelState&)>;

/// Trains from `start` at `from` on. Calls `save` at the end of each epoch, every training.checkpoint_seconds, and when it
/// stops. Where the learner goes back to an earlier step, that step and those after it are done again, with the same images
/// and random numbers. Throws Error when the loss is no longer a number, and PeerLost where the learner cannot go on.
Outcome train(const Training& training, Learner& learner, std::shared_ptr<const ModelState> start, const Progress& from,
              const Observers& observers, const Save& save);

}  // namespace convoy
