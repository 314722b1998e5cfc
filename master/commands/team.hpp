// The machines of a training run: one cluster, or one for each replica of the net.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "master/cluster/cluster_replica.hpp"
#include "master/commands/options.hpp"
#include "train/replica_learner.hpp"

namespace convoy {

/// Whether replicas have batches of their own. Otherwise all members share the images of a step.
bool has_replicas(const TrainOptions& options);
/// The number of batches that are computed from the same weights; 1 with --sync split. Throws Error where the options
/// do not go together.
int replicas_of(const TrainOptions& options);
/// Throws Error where the net's training does not go together with the options.
void expect_trainable(const TrainOptions& options, const Net& net);
/// Throws Error where the options ask to keep maps that cannot be kept.
void expect_cacheable(const TrainOptions& options, const Net& net, const Cut& cut);
/// The number of batches that a step of the training loop takes.
int batches_in_step(const TrainOptions& options);

class Team {
 public:
  /// A team without machines; see assemble().
  Team(const TrainOptions& options, const Net& net, const Cut& cut);

  /// Where the slaves of a run come from that does not listen by itself.
  struct Door {
    wire::Network* network = &wire::tcp_network();
    std::shared_ptr<KeyRing> keys = {};  ///< null for those of the options
  };
  /// Waits for the slaves that the options ask for. Returns nothing if `stop` is set before all slaves have joined. All
  /// arguments must outlive the team. Replicas listen by themselves, whatever the door.
  static std::unique_ptr<Team> assemble(const TrainOptions& options, const Net& net, const Cut& cut,
                                        const Observers& observers, const std::atomic<bool>& stop, const Door& door);

  /// The learner of the team, which must outlive it.
  std::unique_ptr<Learner> make_learner();

  const Device& device() const { return clusters_.front()->device(); }
  /// The current plan of the first replica, and those of the others.
  const Plan& plan() const { return clusters_.front()->plan(); }
  std::vector<Plan> other_plans() const;
  /// The stages of plan().
  const std::vector<Stage>& stages() const { return clusters_.front()->cut().trunk; }
  /// The measured speeds of all members. They have no members if no member was timed.
  const Calibration& calibration() const {
    return has_replicas(options_) ? calibration_ : clusters_.front()->calibration();
  }
  /// The energy of each slave that has taken part.
  std::vector<MemberEnergy> energies() const;
  /// See Cluster::image_bytes().
  const ImageBytes& image_bytes() const { return clusters_.front()->image_bytes(); }
  /// Whether this machine computes everything.
  bool is_alone() const;
  /// See Cluster::verified().
  long verified() const { return clusters_.front()->verified(); }
  /// Tells the slaves that the run is over, with the reason.
  void dismiss(const std::string& reason);

 private:
  std::unique_ptr<ReplicaLearner> make_replica_learner();

  const TrainOptions& options_;
  Net net_;  ///< with the number of images that the members compute at once as its batch
  const Cut& cut_;
  Cut bare_;  ///< the net of a replica that keeps no moments
  std::vector<std::unique_ptr<Cluster>> clusters_;
  Calibration calibration_;  ///< of the members of all replicas, where there are several
};

}  // namespace convoy
