#include "master/commands/team.hpp"

#include <algorithm>
#include <utility>

#include "devices/paced_device.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "master/cluster/master_times.hpp"
#include "train/async_learner.hpp"
#include "train/replica_learner.hpp"

namespace convoy {
namespace {

/// Throws Error for options that have no meaning with replicas.
void expect_for_replicas(const TrainOptions& options) {
  const ClusterOptions& cluster = options.cluster;
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) fail("{} cannot be combined with --sync join or none: {}; leave it out", option, why);
  };
  refuse(cluster.share, "--master-share", "replicas are groups of slaves");
  refuse(!cluster.shares.empty(), "--shares", "slaves are grouped by their measured speeds");
  refuse(!cluster.plan.empty(), "--plan", "each replica has a plan of its own");
  refuse(cluster.least_slaves > 0, "--least-slaves", "a replica without slaves leaves its batches to the others");
  refuse(cluster.verify > 0, "--verify", "the master updates the weights, so that there are no updates to verify");
  refuse(options.snapshot_seconds > 0.0, "--snapshot-seconds", "the master has the weights and needs no snapshot");
}

void expect_needed(bool given, bool has_a_meaning, const char* option, const char* sync) {
  if (given && !has_a_meaning) fail("{} needs --sync {}; leave it out, or give --sync {}", option, sync, sync);
}

}  // namespace

int replicas_of(const TrainOptions& options) {
  const bool join = options.sync == Sync::join;
  expect_needed(options.replicas > 0, options.sync != Sync::split, "--replicas", "join or none");
  expect_needed(options.backups > 0, join, "--backup", "join");
  expect_needed(options.scale_rate, join, "--scale-rate", "join");
  expect_needed(options.staleness.has_value(), options.sync == Sync::none, "--staleness", "none");
  if (options.sync == Sync::split) return 1;
  expect_for_replicas(options);
  const int slaves = options.cluster.slaves;
  if (options.replicas == 0 && slaves == 0) {
    fail("--sync {} without slaves needs --replicas, since there are no slaves to be replicas", join ? "join" : "none");
  }
  const int replicas = options.replicas > 0 ? options.replicas : slaves;
  if (options.backups >= replicas) {
    fail("--backup {} would drop the gradients of all {} replicas; give fewer", options.backups, replicas);
  }
  return replicas;
}

int batches_in_step(const TrainOptions& options) {
  const int replicas = replicas_of(options);
  return options.sync == Sync::none ? 1 : replicas;
}

Team::Team(const TrainOptions& options, const Net& net, const Cut& cut)
    : options_(options), net_(net), cut_(cut), bare_(without_moments(cut)) {}

std::unique_ptr<Team> Team::assemble(const TrainOptions& options, const Net& net, const Cut& cut,
                                     const Observers& observers, const std::atomic<bool>& stop) {
  auto team = std::make_unique<Team>(options, net, cut);
  const Cut& computed = options.sync != Sync::split ? team->bare_ : cut;
  if (options.sync != Sync::split && options.cluster.slaves > 0) {
    // With fewer slaves than replicas, those that are free take the next batch.
    const int crews = std::min(replicas_of(options), options.cluster.slaves);
    ClusterReplicas made = assemble_replicas(crews, options.cluster, options.net, net, computed, observers, stop);
    if (made.clusters.empty()) return nullptr;
    team->clusters_ = std::move(made.clusters);
    team->calibration_ = std::move(made.calibration);
    return team;
  }
  auto cluster = Cluster::assemble(options.cluster, options.net, net, computed, observers, stop);
  if (!cluster) return nullptr;
  team->clusters_.push_back(std::move(cluster));
  return team;
}

std::unique_ptr<Learner> Team::make_learner() {
  const int batch = net_.training.batch;
  const int threads = options_.net.device_options.threads;
  Cluster& first = *clusters_.front();
  const std::optional<HeadPace> pace = pace_of_heads(cut_, batch, first.device());
  if (options_.sync != Sync::split) {
    std::vector<std::unique_ptr<Replica>> replicas;
    for (const auto& cluster : clusters_) {
      replicas.push_back(std::make_unique<ClusterReplica>(*cluster, bare_, batch, threads, pace));
    }
    const int count = replicas_of(options_);
    if (options_.sync == Sync::none) {
      return std::make_unique<AsyncLearner>(std::move(replicas), cut_, batch, count, options_.staleness, threads, pace);
    }
    return std::make_unique<JoinLearner>(std::move(replicas), cut_, batch, count, options_.backups, threads, pace);
  }
  // A run on paced devices has no values to which it could go back after a loss, so that it needs no recovery.
  if (options_.cluster.slaves == 0 || is_paced(options_.net.device)) {
    return std::make_unique<NetLearner>(first.trunk(), cut_, batch, threads, pace);
  }
  return std::make_unique<ClusterLearner>(first, cut_, batch, threads, options_.snapshot_seconds);
}

std::vector<Plan> Team::other_plans() const {
  std::vector<Plan> plans;
  for (std::size_t r = 1; r < clusters_.size(); ++r) plans.push_back(clusters_[r]->plan());
  return plans;
}

std::vector<MemberEnergy> Team::energies() const {
  std::vector<MemberEnergy> energies;
  for (const auto& cluster : clusters_) {
    for (MemberEnergy& each : cluster->energies()) energies.push_back(std::move(each));
  }
  return energies;
}

bool Team::is_alone() const {
  return std::ranges::all_of(
      clusters_, [](const auto& each) { return each->plan().members == std::vector<std::string>{kMasterName}; });
}

void Team::dismiss(const std::string& reason) {
  for (const auto& cluster : clusters_) cluster->dismiss(reason);
}

}  // namespace convoy
