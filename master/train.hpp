// The training loop.
#pragma once

#include <atomic>
#include <functional>

#include "master/batches.hpp"
#include "master/checkpoint.hpp"
#include "master/head.hpp"
#include "master/observer.hpp"
#include "master/trunk.hpp"
#include "nets/net.hpp"

namespace convoy {

/// What is trained, wherever its parts run.
struct Model {
  Trunk& trunk;
  Head<float>& head;
};

ModelState state_of(Model model);
void load(Model model, const ModelState& state);

/// One step on one batch: forward, loss, backward, update.
Head<float>::Loss train_step(Model model, const Tensor& images, const std::vector<int>& labels, const Pass& pass,
                             const SgdStep& sgd);

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
  long max_steps = 0;                ///< stops after so many steps in all; 0 for no limit
  double checkpoint_seconds = 60.0;  ///< between checkpoints, besides those at the epochs' ends
  const std::atomic<bool>& stop;     ///< finish the step and return
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

/// Trains from `from` on. Calls `save` at the end of each epoch, every training.checkpoint_seconds, and when it stops.
/// Throws Error when the loss is no number any more, PeerLost when a slave is lost.
Outcome train(const Training& training, Model model, const Progress& from, const Observers& observers,
              const std::function<void(const Progress&)>& save);

}  // namespace convoy
