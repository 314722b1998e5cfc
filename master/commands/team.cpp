#include "master/commands/team.hpp"

#include <algorithm>
#include <utility>

#include "devices/paced_device.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "train/async_learner.hpp"
#include "train/cached_trunk.hpp"
#include "train/local_steps_learner.hpp"

namespace convoy {
namespace {

/// Throws Error for options that have no meaning with replicas.
void expect_for_replicas(const TrainOptions& options) {
  const ClusterOptions& cluster = options.cluster;
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) fail("{} cannot be combined with --sync join or none: {}; leave it out", option, why);
  };
  refuse(cluster.share, "--master-share", "replicas are groups of slaves");
  refuse(cluster.dense == DenseBy::members, "--dense members", "the master has the dense layers of all replicas");
  refuse(!cluster.shares.empty(), "--shares", "slaves are grouped by their measured speeds");
  refuse(!cluster.plan.empty(), "--plan", "each replica has a plan of its own");
  refuse(cluster.least_slaves > 0, "--least-slaves", "a replica without slaves leaves its batches to the others");
  refuse(cluster.verify > 0, "--verify", "the master updates the weights, so that there are no updates to verify");
  refuse(options.snapshot_seconds > 0.0, "--snapshot-seconds", "the master has the weights and needs no snapshot");
}

void expect_needed(bool given, bool has_a_meaning, const char* option, const char* sync) {
  if (given && !has_a_meaning) fail("{} needs --sync {}; leave it out, or give --sync {}", option, sync, sync);
}

/// Throws Error for options that have no meaning where each replica trains by itself.
void expect_for_local_steps(const TrainOptions& options) {
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) fail("{} cannot be combined with --sync-every: {}; leave one of them out", option, why);
  };
  refuse(options.backups > 0, "--backup", "no step waits for the gradients of all replicas");
  refuse(options.scale_rate, "--scale-rate", "each replica updates by the gradients of one batch");
  const int slaves = options.cluster.slaves;
  if (slaves > 0 && options.replicas > slaves) {
    fail(
        "--sync-every needs a slave for each replica, which trains by itself, but {} slaves are to be {} replicas; "
        "give --replicas {} or fewer",
        slaves, options.replicas, slaves);
  }
}

/// Throws Error for options that have no meaning where members share the images of all replicas.
void expect_for_distributed_server(const TrainOptions& options) {
  if (options.sync == Sync::none) {
    fail(
        "--server distributed cannot be combined with --sync none: members that hold parts of the weights update them "
        "together, in one step that all of them do, and never by the gradients of one replica; give --server central, "
        "or --sync join --server distributed");
  }
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) fail("{} cannot be combined with --server distributed: {}; leave one of them out", option, why);
  };
  refuse(options.backups > 0, "--backup", "all members find parts of the same gradients");
  refuse(options.sync_every > 0, "--sync-every", "members share each step");
  refuse(options.semaphore.has_value(), "--semaphore", "the master sends no weights");
}

bool is_distributed(const TrainOptions& options) { return options.server == Server::distributed; }

/// Whether the master has the only moments, since it updates.
bool has_server(const TrainOptions& options) { return has_replicas(options) && options.sync_every == 0; }

/// The type in which weights and gradients of replicas travel. Two roundings at random, of int8, would add up.
NumberType type_of_states(const ClusterOptions& options) {
  const NumberType wire = options.wire.empty() ? NumberType::fp32 : number_type_from(options.wire);
  return wire == NumberType::int8 ? NumberType::fp32 : wire;
}

/// The type in which the models of replicas that train by themselves travel. In fp16 small changes would vanish, and so
/// would Adam's mean squares.
NumberType type_of_models(const ClusterOptions& options) {
  return type_of_states(options) == NumberType::bf16 ? NumberType::bf16 : NumberType::fp32;
}

}  // namespace

void expect_trainable(const TrainOptions& options, const Net& net) {
  if (options.sync_every > 0 && net.training.clip > 0.0) {
    fail(
        "{}: training.clip cannot be combined with --sync-every: each replica has gradients of its own, whose common "
        "norm nobody knows; give --set training.clip=0, or leave out --sync-every",
        net.file);
  }
}

void expect_cacheable(const TrainOptions& options, const Net& net, const Cut& cut) {
  if (options.cluster.cache_maps.empty()) return;
  if (options.cluster.slaves > 0 && has_replicas(options)) {
    fail(
        "--cache-maps cannot be combined with --slaves and --sync {}: each replica would keep maps of its own, but it "
        "gets other images in each epoch; leave one of the options out",
        options.sync == Sync::join ? "join" : "none");
  }
  const std::string obstacle = CachedTrunk::obstacle(cut.trunk);
  if (!obstacle.empty()) {
    fail(
        "{}: --cache-maps needs a net whose convolutions give an image the same maps in each step, but {}; leave out "
        "--cache-maps{}",
        net.file, obstacle,
        obstacle.ends_with("is not frozen") ? ", or freeze layers with --set training.freeze=[...]" : "");
  }
}

bool has_replicas(const TrainOptions& options) { return options.sync != Sync::split && !is_distributed(options); }

int replicas_of(const TrainOptions& options) {
  const bool join = options.sync == Sync::join;
  expect_needed(options.replicas > 0, options.sync != Sync::split, "--replicas", "join or none");
  expect_needed(options.server.has_value(), options.sync != Sync::split, "--server", "join or none");
  expect_needed(options.semaphore.has_value(), options.sync != Sync::split, "--semaphore", "join or none");
  expect_needed(options.backups > 0, join, "--backup", "join");
  expect_needed(options.scale_rate, join, "--scale-rate", "join");
  expect_needed(options.sync_every > 0, join, "--sync-every", "join");
  for (const auto& [given, option] : {std::pair(options.outer.momentum != 0.0, "--outer-momentum"),
                                      std::pair(options.outer.rate != 1.0, "--outer-rate")}) {
    if (!given || options.sync_every > 0) continue;
    fail(
        "{} needs --sync-every, because it changes how weights move to the averages; give --sync-every, or leave {} "
        "out",
        option, option);
  }
  if (options.sync_up_to > 0 && options.sync_every == 0) {
    fail("--sync-up-to needs --sync-every, the number of steps that grows; give --sync-every, or leave it out");
  }
  if (options.sync_up_to > 0 && options.sync_up_to < options.sync_every) {
    fail("--sync-up-to {0} is below --sync-every {1}, which can only grow; give {1} or more", options.sync_up_to,
         options.sync_every);
  }
  expect_needed(options.staleness.has_value(), options.sync == Sync::none, "--staleness", "none");
  if (options.sync == Sync::split) return 1;
  if (is_distributed(options)) {
    expect_for_distributed_server(options);
  } else {
    expect_for_replicas(options);
  }
  if (options.sync_every > 0) expect_for_local_steps(options);
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
    : options_(options), net_(net), cut_(cut), bare_(without_moments(cut)) {
  if (is_distributed(options)) net_.training.batch *= batches_in_step(options);
}

std::unique_ptr<Team> Team::assemble(const TrainOptions& options, const Net& net, const Cut& cut,
                                     const Observers& observers, const std::atomic<bool>& stop, const Door& door) {
  auto team = std::make_unique<Team>(options, net, cut);
  const Cut& computed = has_server(options) ? team->bare_ : cut;
  if (has_replicas(options) && options.cluster.slaves > 0) {
    // With fewer slaves than replicas, those that are free take the next batch.
    const int crews = std::min(replicas_of(options), options.cluster.slaves);
    ClusterReplicas made =
        assemble_replicas(crews, options.cluster, options.net, team->net_, computed, observers, stop);
    if (made.clusters.empty()) return nullptr;
    team->clusters_ = std::move(made.clusters);
    team->calibration_ = std::move(made.calibration);
    return team;
  }
  // Without slaves this machine computes all batches of a step. Replicas that train by themselves need a copy of the
  // net each.
  const int copies = options.sync_every > 0 ? replicas_of(options) : 1;
  for (int i = 0; i < copies; ++i) {
    auto cluster = Cluster::assemble(options.cluster, options.net, team->net_, computed, observers, stop, *door.network,
                                     door.keys);
    if (!cluster) return nullptr;
    team->clusters_.push_back(std::move(cluster));
  }
  return team;
}

std::unique_ptr<ReplicaLearner> Team::make_replica_learner() {
  const int batch = net_.training.batch;
  const HeadPlace& place = clusters_.front()->heads();
  const int count = replicas_of(options_);
  const Cut& computed = has_server(options_) ? bare_ : cut_;
  std::vector<std::unique_ptr<Replica>> replicas;
  for (const auto& cluster : clusters_) {
    replicas.push_back(std::make_unique<ClusterReplica>(*cluster, computed, batch));
  }
  if (options_.sync_every > 0) {
    const ExchangePeriod period{.steps = options_.sync_every,
                                .most = options_.sync_up_to,
                                .full_rate = net_.training.learning_rate,
                                .warm_up = net_.training.schedule.warm_up,
                                .moments = kMomentSteps};
    auto learner =
        std::make_unique<LocalStepsLearner>(std::move(replicas), cut_, batch, count, period, place, options_.outer);
    learner->carry_in(type_of_models(options_.cluster));
    return learner;
  }
  std::unique_ptr<ServerLearner> learner;
  if (options_.sync == Sync::none) {
    learner = std::make_unique<AsyncLearner>(std::move(replicas), cut_, batch, count, options_.staleness, place);
  } else {
    learner = std::make_unique<JoinLearner>(std::move(replicas), cut_, batch, count, options_.backups, place);
  }
  learner->carry_in(type_of_states(options_.cluster));
  return learner;
}

std::unique_ptr<Learner> Team::make_learner() {
  const int batch = net_.training.batch;
  Cluster& first = *clusters_.front();
  if (has_replicas(options_)) {
    auto learner = make_replica_learner();
    // Asynchronous replicas that transfer in turns compute while others transfer.
    const bool in_turns = options_.semaphore.value_or(options_.sync == Sync::none);
    if (in_turns && clusters_.size() > 1) learner->transfer_in_turns();
    return learner;
  }
  // A run on paced devices has no values to which it could go back after a loss, so that it needs no recovery.
  std::unique_ptr<Learner> learner;
  if (options_.cluster.slaves == 0 || is_paced(options_.net.device)) {
    learner = std::make_unique<NetLearner>(first.trunk(), first.cut(), batch, first.heads());
  } else {
    learner = std::make_unique<ClusterLearner>(first, first.cut(), batch, options_.snapshot_seconds);
  }
  return of_whole_net(std::move(learner), first);
}

std::vector<Plan> Team::other_plans() const {
  std::vector<Plan> plans;
  if (is_alone()) return plans;  // all are the same
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
  return std::ranges::all_of(clusters_, [](const auto& each) { return is_master_alone(each->plan()); });
}

void Team::dismiss(const std::string& reason) {
  for (const auto& cluster : clusters_) cluster->dismiss(reason);
}

}  // namespace convoy
