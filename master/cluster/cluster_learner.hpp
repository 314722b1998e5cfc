// A learner whose trunk runs on slaves, which may be lost, join and leave. It keeps a snapshot of the model in memory,
// goes back to it when a slave is lost, and changes the members between two steps.
#pragma once

#include <memory>
#include <optional>

#include "core/stopwatch.hpp"
#include "master/cluster/cluster.hpp"
#include "train/learner.hpp"

namespace convoy {

class ClusterLearner : public Learner {
 public:
  /// `snapshot_seconds` is the time between two snapshots; 0 derives it from their measured cost. The cluster must
  /// outlive the learner.
  ClusterLearner(Cluster& cluster, const Cut& cut, int batch, double snapshot_seconds = 0.0);

  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override;
  double gradient_squares() override;
  void apply(const UpdateStep& step, const Progress& after) override;
  void settle() override;
  std::optional<Broken> broken() const override { return net_.broken(); }
  const Tensor& outputs(const Images& images) override;
  BatchLoss test_loss(const Labels& labels, int count) override { return net_.test_loss(labels, count); }
  std::shared_ptr<const ModelState> state() override;
  void load(TrainingState from) override;
  const TrainingState* kept() const override { return kept_.model ? &kept_ : nullptr; }
  std::vector<MemberTime> take_times() override { return net_.take_times(); }

 private:
  template <class Call>
  auto guarded(const Call& call);
  void recover(PeerLost lost);
  void regroup();
  void keep();
  void keep_in_the_background();
  double keep_after() const;

  Cluster& cluster_;
  NetLearner net_;
  double snapshot_seconds_;
  Progress stands_;     ///< progress of the model that the members hold
  TrainingState kept_;  ///< the last complete snapshot

  /// A snapshot whose trunk has not arrived completely.
  struct Pending {
    std::vector<DenseState<float>> head;
    Progress progress;
  };
  std::optional<Pending> pending_;
  Stopwatch since_start_;
  Stopwatch since_kept_;       ///< runs since the last snapshot began
  double keep_seconds_ = 0.0;  ///< how long the last background snapshot took
  int losses_ = 0;
};

/// Returns a learner of the whole net where `learner` is one of the net in the form that the cluster computes.
std::unique_ptr<Learner> of_whole_net(std::unique_ptr<Learner> learner, const Cluster& cluster);

}  // namespace convoy
