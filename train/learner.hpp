// The third seam: what the training loop drives. A learner takes a batch and gives its loss, keeps the gradients, and takes
// an update. Who computes, and what happens when a machine is lost, is decided below it.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "core/shard_state.hpp"
#include "core/tensor.hpp"
#include "model/checkpoint.hpp"
#include "model/heads.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// A learner lost members and went back to an earlier step: its state is the one that training had at `to`, and it is ready
/// to go on from there.
class Rewound : public std::exception {
 public:
  explicit Rewound(const Progress& to) : to_(to) {}
  const Progress& to() const { return to_; }
  const char* what() const noexcept override { return "the learner went back to an earlier step"; }

 private:
  Progress to_;
};

/// The calls of a training step are accumulate, gradient_squares where the update needs it, and apply. Each of them, and
/// state(), throws Rewound where members were lost and the step is to be done again, and PeerLost where the learner cannot
/// go on.
class Learner {
 public:
  virtual ~Learner() = default;

  /// Forward pass, loss and backward pass of a training batch: `images` (batch, channels, height, width), normalised, and a
  /// label for each. The gradients of the mean loss stay inside, and replace those of the batch before.
  virtual BatchLoss accumulate(const Tensor& images, const std::vector<int>& labels, const Pass& pass) = 0;
  /// The sum of the squares of all gradients, of a pass with `squares` set.
  virtual double gradient_squares() = 0;
  /// Updates all parameters. `after` says where training stands then.
  virtual void apply(const UpdateStep& step, const Progress& after) = 0;

  /// Outputs of the main head in testing, before its loss: (batch, classes). They belong to the learner and hold until the
  /// next call. A loss of members is made good, unless steps were done since the last state() or load(): then Rewound.
  virtual const Tensor& outputs(const Tensor& images) = 0;
  /// The loss in testing over the first `count` images. After outputs().
  virtual BatchLoss test_loss(const std::vector<int>& labels, int count) = 0;

  /// All parameters with their moments.
  virtual std::shared_ptr<const ModelState> state() = 0;
  /// Takes the state of a model for which training stands at `at`.
  virtual void load(std::shared_ptr<const ModelState> model, const Progress& at) = 0;

  /// Time that each member spent since the last call.
  virtual std::vector<MemberTime> take_times() = 0;
};

/// A net whose trunk runs in one place: in this process, or on the members of one plan. Losses of members pass through as
/// PeerLost.
class NetLearner : public Learner {
 public:
  /// `threads` of this machine compute the heads (0: all cores). The trunk must outlive the learner, or be replaced with
  /// use().
  NetLearner(Trunk& trunk, const Cut& cut, int batch, int threads = 0);

  /// Another trunk of the same net, whose state is still to be loaded.
  void use(Trunk& trunk) { trunk_ = &trunk; }
  Trunk& trunk() { return *trunk_; }
  Heads& heads() { return heads_; }

  BatchLoss accumulate(const Tensor& images, const std::vector<int>& labels, const Pass& pass) override;
  double gradient_squares() override;
  void apply(const UpdateStep& step, const Progress& after = {}) override;
  const Tensor& outputs(const Tensor& images) override;
  BatchLoss test_loss(const std::vector<int>& labels, int count) override;
  std::shared_ptr<const ModelState> state() override;
  void load(std::shared_ptr<const ModelState> model, const Progress& at = {}) override;
  std::vector<MemberTime> take_times() override { return trunk_->take_times(); }

 private:
  Trunk* trunk_;
  Heads heads_;
};

}  // namespace convoy
