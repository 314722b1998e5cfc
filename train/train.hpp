// The training loop.
#pragma once

#include <atomic>
#include <functional>

#include "data/batches.hpp"
#include "model/checkpoint.hpp"
#include "model/heads.hpp"
#include "nets/graph/net.hpp"
#include "train/observer.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// What is trained, wherever its parts run.
struct Model {
  Trunk& trunk;
  Heads& heads;
};

ModelState state_of(Model model);
void load(Model model, const ModelState& state);

/// One step on one batch: forward, loss, backward, update. `update` makes the update from the norm of all gradients, which
/// is 0 unless pass.squares asks for it.
Head<float>::Loss train_step(Model model, const Tensor& images, const std::vector<int>& labels, const Pass& pass,
                             const std::function<UpdateStep(double gradient_norm)>& update);

struct Evaluation {
  double loss = 0.0;      ///< mean
  double accuracy = 0.0;  ///< fraction
};
/// Over a whole data set.
Evaluation evaluate(Model model, const Batches& batches);

struct Training {
  const Net& net;
  const Batches& training;
  const Batches& test;
  std::uint64_t seed = 0;
  long max_steps = 0;                     ///< stops after so many steps in all; 0 for no limit
  double checkpoint_seconds = 60.0;       ///< between checkpoints, besides those at the epochs' ends
  double snapshot_seconds = 0.0;          ///< between snapshots that a loss falls back to; 0: by their cost
  const std::atomic<bool>& stop;          ///< finish the step and return
  std::atomic<bool>* save_now = nullptr;  ///< save after the step, and reset
  /// Makes a trunk without a slave that was lost; empty: a loss ends the training.
  std::function<Trunk&(const PeerLost&)> recover = {};
  /// Whether slaves come or go; a trunk that heeds that. Empty with recover.
  std::function<bool()> members_change = {};
  std::function<Trunk&()> regroup = {};
};

struct Progress {
  Position position;
  double epoch_loss = 0.0;  ///< sum over the epoch's images so far
  long epoch_correct = 0;
};

struct Outcome {
  Progress progress;
  bool interrupted = false;
  double test_accuracy = -1.0;    ///< after the last whole epoch; negative before the first
  std::vector<MemberTime> times;  ///< over all steps
  double seconds = 0.0;
};

/// Writes where training stands.
using Save = std::function<void(const Progress&, const ModelState&)>;

/// Trains from `start` at `from` on. Calls `save` at the end of each epoch, every training.checkpoint_seconds, and when it stops.
/// Steps since the last snapshot of the model are done again after a loss, with the same images and random numbers: the
/// weights are those of a run in which the plan had changed at that snapshot. Throws Error when the loss is no number
/// any more; PeerLost where nothing recovers from it.
Outcome train(const Training& training, Model model, ModelState start, const Progress& from, const Observers& observers,
              const Save& save);

}  // namespace convoy
