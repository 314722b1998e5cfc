// Learners made of replicas.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "train/learner.hpp"
#include "train/parameter_server.hpp"
#include "train/replica.hpp"

namespace convoy {

/// What all schemes have in common: the replicas, and tests, which they share.
class ReplicaLearner : public Learner {
 public:
  /// From now on, one replica at a time is sent weights, and one at a time sends gradients, in the order in which they
  /// ask. The other replicas compute meanwhile.
  void transfer_in_turns();
  /// `images` are as many as the batches of all replicas.
  const Tensor& outputs(const Images& images) override;
  BatchLoss test_loss(const Labels& labels, int count) override { return heads_.loss(labels, count); }
  std::vector<MemberTime> take_times() override;

 protected:
  /// `cut` is the net with the optimizer's moments. Tests take `parts` batches of `batch` images at a time, and `place`
  /// is where this machine computes their heads. There is at least one replica.
  ReplicaLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts,
                 const HeadPlace& place);

  /// The newest weights, in the form of the replicas' cut.
  virtual std::shared_ptr<const ModelState> weights() = 0;

  std::size_t replica_count() const { return replicas_.size(); }
  Replica& replica(std::size_t number) { return *replicas_[number]; }
  const Replica& replica(std::size_t number) const { return *replicas_[number]; }
  /// Whether a replica is to compute: one that has lost its slaves does so only where no other replica is left.
  bool takes_part(std::size_t number);

  using Done = std::function<void(std::size_t task, Replica::Result&& result)>;
  /// Returns a replica that is idle, for the caller to begin this task.
  Replica& assign(std::size_t number, std::size_t task);
  /// Gives a task to a replica that is free, and moves it. Returns false if no replica is free.
  bool begin(std::size_t task, Replica::Task& work);
  /// Advances the replicas, and calls `done` for each task that is done. Waits if no replica could do anything.
  void advance(const Done& done);
  /// Drops the results of all tasks that are not done yet. Their replicas are free once they are done.
  void drop_tasks();
  /// The tasks for parts of the images, one for each batch.
  std::vector<Replica::Task> tasks_of(const Images& images, const Labels& labels, const Pass& pass);

 private:
  Semaphore semaphore_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::optional<std::size_t>> tasks_;  ///< of each replica; nothing if nobody wants its result
  int batch_;
  int parts_;
  Heads heads_;  ///< for tests: computes the outputs of all batches
  std::size_t trunk_outputs_;
  Tensor maps_;  ///< the maps of all batches of a test, the input of heads_
};

/// One parameter server on this machine has the weights and updates them. Nothing needs a snapshot to survive the loss
/// of members, because the server has the weights, and a replica does its batch again.
class ServerLearner : public ReplicaLearner {
 public:
  /// From now on, weights and gradients travel in this type; not int8. See ParameterServer::carry_in().
  void carry_in(NumberType type);
  double gradient_squares() override { return server_.squares(gradients_); }
  void apply(const UpdateStep& step, const Progress& after) override;
  void settle() override {}
  std::optional<Broken> broken() const override { return server_.broken(); }
  std::shared_ptr<const ModelState> state() override { return server_.state(); }
  void load(TrainingState from) override;
  const TrainingState* kept() const override;

 protected:
  /// See ReplicaLearner. The replicas keep no moments, and `cut` must outlive the learner.
  ServerLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts,
                const HeadPlace& place)
      : ReplicaLearner(std::move(replicas), cut, batch, parts, place), server_(cut) {}

  std::shared_ptr<const ModelState> weights() override { return server_.weights(); }

  ParameterServer server_;
  ModelState gradients_;  ///< of the next update
  long step_ = 0;         ///< of the next update

 private:
  Progress stands_;
  mutable TrainingState kept_;  ///< what kept() has returned
};

/// Synchronous training, "join" (Chen et al., Revisiting Distributed Synchronous SGD, 2016). A step takes `parts`
/// batches of `batch` images: each replica finds the gradients of a whole batch, and the server updates once by their
/// mean, added in the order of the batches. So a step is the same as one with a batch `parts` times as large, up to
/// rounding, but for two things that belong to each batch: the statistics of batch norms, and the seed of dropout and
/// of a wire in int8, which the first batch has of the step and the others have of their own. The running averages of
/// the step are the means of those of its batches.
///
/// With `backups`, an update waits only for the first `parts - backups` gradients that come, and the others are
/// dropped. The loss and the accuracy of a step are those of the gradients that count, as if all its images had the
/// same.
class JoinLearner : public ServerLearner {
 public:
  /// Replicas that are free take the next batch, so there may be more batches than replicas.
  JoinLearner(std::vector<std::unique_ptr<Replica>> replicas, const Cut& cut, int batch, int parts, int backups = 0,
              const HeadPlace& place = {})
      : ServerLearner(std::move(replicas), cut, batch, parts, place), backups_(backups) {}

  /// `images` and `labels` are those of all batches of the step, one batch after another.
  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override;

 private:
  int backups_;
};

}  // namespace convoy
