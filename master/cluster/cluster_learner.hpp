// A learner whose trunk runs on slaves that may be lost, come and go. It keeps snapshots of the model in memory, falls back to
// the last one when a slave is lost, and regroups the members between two steps.
#pragma once

#include <memory>
#include <optional>

#include "core/stopwatch.hpp"
#include "master/cluster/cluster.hpp"
#include "train/learner.hpp"

namespace convoy {

class ClusterLearner : public Learner {
 public:
  /// `threads` of this machine compute the heads (0: all cores). `snapshot_seconds`: the time between two snapshots; 0 chooses it by what
  /// they cost. The cluster must outlive the learner.
  ClusterLearner(Cluster& cluster, const Cut& cut, int batch, int threads, double snapshot_seconds = 0.0);

  BatchLoss accumulate(const Tensor& images, const std::vector<int>& labels, const Pass& pass) override;
  double gradient_squares() override;
  void apply(const UpdateStep& step, const Progress& after) override;
  const Tensor& outputs(const Tensor& images) override;
  BatchLoss test_loss(const std::vector<int>& labels, int count) override { return net_.test_loss(labels, count); }
  std::shared_ptr<const ModelState> state() override;
  void load(std::shared_ptr<const ModelState> model, const Progress& at = {}) override;
  std::vector<MemberTime> take_times() override { return net_.take_times(); }

 private:
  /// A model, and where training stood with it.
  struct Kept {
    std::shared_ptr<const ModelState> model;
    Progress progress;
  };

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
  Progress stands_;  ///< of the model that the members hold
  Kept kept_;        ///< the last whole snapshot

  /// A snapshot whose trunk is still on its way.
  struct Pending {
    std::vector<DenseState<float>> head;
    Progress progress;
  };
  std::optional<Pending> pending_;
  Stopwatch since_start_;
  Stopwatch since_kept_;       ///< since the last snapshot began
  double keep_seconds_ = 0.0;  ///< from the last snapshot's beginning to its end
  int losses_ = 0;
};

}  // namespace convoy
