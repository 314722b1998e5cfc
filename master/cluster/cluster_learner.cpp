#include "master/cluster/cluster_learner.hpp"

#include "train/sliced_learner.hpp"

#include <cmath>
#include <utility>

namespace convoy {

ClusterLearner::ClusterLearner(Cluster& cluster, const Cut& cut, int batch, double snapshot_seconds)
    : cluster_(cluster), net_(cluster.trunk(), cut, batch, cluster.heads()), snapshot_seconds_(snapshot_seconds) {}

/// Calls `call`. If it loses a member, the step is void: the model goes back to the last snapshot, and Rewound is
/// thrown.
template <class Call>
auto ClusterLearner::guarded(const Call& call) {
  try {
    return call();
  } catch (const PeerLost& lost) {
    recover(lost);
  }
  throw Rewound(kept_.progress);
}

BatchLoss ClusterLearner::accumulate(const Images& images, const Labels& labels, const Pass& pass) {
  return guarded([&] {
    if (cluster_.members_change()) regroup();
    return net_.accumulate(images, labels, pass);
  });
}

double ClusterLearner::gradient_squares() {
  return guarded([&] { return net_.gradient_squares(); });
}

void ClusterLearner::apply(const UpdateStep& step, const Progress& after) {
  guarded([&] {
    net_.apply(step);
    cluster_.count_step();
    stands_ = after;
    keep_in_the_background();
  });
}

void ClusterLearner::settle() {
  guarded([&] { net_.settle(); });
}

const Tensor& ClusterLearner::outputs(const Images& images) {
  while (true) {
    try {
      return net_.outputs(images);
    } catch (const PeerLost& lost) {
      const bool no_step_since = stands_ == kept_.progress;
      recover(lost);
      if (!no_step_since) throw Rewound(kept_.progress);
    }
  }
}

std::shared_ptr<const ModelState> ClusterLearner::state() {
  return guarded([&] {
    keep();
    return kept_.model;
  });
}

void ClusterLearner::load(TrainingState from) {
  kept_ = std::move(from);
  stands_ = kept_.progress;
  try {
    net_.load(kept_);
  } catch (const PeerLost& lost) {
    recover(lost);
  }
}

/// Loads the last snapshot into the remaining members, and again whenever another member is lost meanwhile. A PeerLost
/// that the cluster throws while it recovers ends the run.
void ClusterLearner::recover(PeerLost lost) {
  pending_.reset();
  while (true) {
    ++losses_;
    net_.use(cluster_.recover(lost));
    try {
      net_.load(kept_);
      stands_ = kept_.progress;
      return;
    } catch (const PeerLost& next) {
      lost = next;
    }
  }
}

void ClusterLearner::regroup() {
  keep();
  net_.use(cluster_.regroup());
  net_.load(kept_);
}

void ClusterLearner::keep() {
  kept_ = {net_.state(), stands_};
  pending_.reset();
  since_kept_.restart();
}

/// Begins a snapshot when one is due, or takes the pending one if it is complete. Never waits.
void ClusterLearner::keep_in_the_background() {
  if (pending_) {
    auto trunk = net_.trunk().take_snapshot();
    if (!trunk) return;
    kept_ = {std::make_shared<const ModelState>(ModelState{*std::move(trunk), std::move(pending_->head)}),
             pending_->progress};
    pending_.reset();
    keep_seconds_ = since_kept_.seconds();
  } else if (since_kept_.seconds() > keep_after()) {
    net_.trunk().begin_snapshot(true);
    pending_ = {.head = net_.heads().states(), .progress = stands_};
    since_kept_.restart();
  }
}

/// The interval between two snapshots, in seconds, that minimises the time lost to snapshots and to repeated steps: the
/// square root of twice the cost of a snapshot times the mean time between two losses (Young, CACM 1974). The estimate
/// of that time starts from one loss an hour. A snapshot travels while steps run and slows them down by at most an
/// eighth of its duration, so this eighth counts as its cost.
double ClusterLearner::keep_after() const {
  if (snapshot_seconds_ > 0.0) return snapshot_seconds_;
  constexpr double kSlowdown = 1.0 / 8.0;
  const double between_losses = (3600.0 + since_start_.seconds()) / (1.0 + losses_);
  return std::sqrt(2.0 * kSlowdown * keep_seconds_ * between_losses);
}

std::unique_ptr<Learner> of_whole_net(std::unique_ptr<Learner> learner, const Cluster& cluster) {
  if (cluster.slices() == nullptr) return learner;
  return std::make_unique<SlicedLearner>(std::move(learner), *cluster.slices());
}

}  // namespace convoy
