// The cluster of a run: it decides whether this machine alone or slaves under a plan compute the trunk, and changes
// that when slaves are lost, join or leave.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "master/cluster/cluster_trunk.hpp"
#include "master/cluster/planning.hpp"
#include "train/kept_maps.hpp"
#include "train/trunk.hpp"

namespace convoy {

class Cluster {
 public:
  /// A cluster of this machine's `device` alone, until it has members and forms; see assemble().
  Cluster(const ClusterOptions& options, const NetOptions& net_options, const Net& net, const Cut& cut,
          const Observers& observers, const std::atomic<bool>& stop, std::shared_ptr<Device> device);

  /// Waits for the slaves that `options` asks for, times them, plans, and has them compile their shards. Tells the
  /// observers what it is waiting for. Without `keys` it opens those of the options. Returns nothing if `stop` is set
  /// before all slaves have joined. All arguments must outlive the cluster.
  static std::unique_ptr<Cluster> assemble(const ClusterOptions& options, const NetOptions& net_options, const Net& net,
                                           const Cut& cut, const Observers& observers, const std::atomic<bool>& stop,
                                           wire::Network& network = wire::tcp_network(),
                                           const std::shared_ptr<KeyRing>& keys = {});

  /// A replica of the net: a cluster of some of the crew's members, whose times are known.
  struct Replica {
    std::shared_ptr<Lobby> lobby;
    Calibration calibration;
    std::vector<std::string> members;
  };
  /// Takes the members of a replica from `crew`, plans, and has them compile their shards.
  void become(const Replica& replica, Crew& crew);

  /// The trunk is valid until the next recover() or regroup().
  Trunk& trunk() { return *trunk_; }
  /// The current plan; it may change between steps.
  const Plan& plan() const { return slaves_ != nullptr ? slaves_->plan() : plan_; }
  const Device& device() const { return *device_; }
  /// The net in the form that is computed, which stays the same once the cluster is assembled.
  const Cut& cut() const { return sliced_ ? slices_->cut : whole_; }
  /// The slices of the first dense layer where the members share it, else null.
  const DenseSlices* slices() const { return sliced_ ? &*slices_ : nullptr; }
  /// Where this machine computes the heads of the net.
  const HeadPlace& heads() const { return heads_; }
  /// The measured speeds. They have no members if no member was timed.
  const Calibration& calibration() const { return planned_.calibration; }

  /// The energy of each slave that has taken part.
  std::vector<MemberEnergy> energies() const { return book_.members(); }

  /// The bytes of images that slaves needed, if the options let them keep images.
  const ImageBytes& image_bytes() const { return image_bytes_; }

  /// The number of verifications that found slaves' work right; negative without --verify.
  long verified() const { return verifier_ ? verifier_->verified() : -1; }

  /// Makes a new trunk after a slave was lost: with the remaining slaves, with new ones too if fewer than
  /// options.least_slaves remain, or on this machine alone, as it does once `stop` is set. If two slaves cannot connect
  /// to each other, the same slaves get a plan in a star. The caller must load the state of the new trunk. Throws Error
  /// if no member can hold the net, and PeerLost if slaves are lost again and again without a step in between.
  Trunk& recover(const PeerLost& lost);
  /// Whether slaves compute the trunk.
  bool has_slaves() const { return slaves_ != nullptr; }
  /// Counts a step that is done. The caller tells of each.
  void count_step();
  /// Whether slaves wait to join or want to leave.
  bool members_change();
  /// Makes a new trunk with slaves that wait to join and without the slaves that want to leave. The caller must read
  /// the state of the trunk before this call and load it afterwards. If newcomers are lost meanwhile, the next
  /// newcomers wait nine times as long as this call took, so that slaves that never take part cost a run at most a
  /// tenth of its time.
  Trunk& regroup();

  /// Tells the slaves that the run is over, with the reason.
  void dismiss(const std::string& reason);

 private:
  void form();
  void form_once();
  void consider_slices();
  void use_slices();
  HeadPlace place_of(const Cut& cut);
  void execute();
  void tell_what_is_verified() const;
  void lose(const PeerLost& lost);
  void train_alone();
  void use(std::unique_ptr<Trunk> trunk);
  void finish_alone();
  void part(const std::string& reason);
  std::size_t slave_count() const { return crew_ ? crew_->slaves().size() : 0; }

  const ClusterOptions& options_;
  const NetOptions& net_options_;
  const Cut& whole_;
  std::optional<DenseSlices> slices_;  ///< the form of the net whose first dense layer the members share, if it has one
  bool sliced_ = false;                ///< whether this form is computed
  const Net& net_;
  const Observers& observers_;
  const std::atomic<bool>& stop_;
  std::shared_ptr<Device> device_;  ///< all replicas of a run share it
  HeadPlace heads_;
  std::optional<Verifier> verifier_;  ///< with --verify
  EnergyBook book_;
  ImageBytes image_bytes_;
  std::shared_ptr<Lobby> lobby_;  ///< null in a run without slaves; all replicas of a run share it
  std::unique_ptr<Crew> crew_;    ///< null in a run without slaves
  Planned planned_;
  bool formed_ = false;                ///< whether a first trunk was made, so that the run has begun
  int losses_ = 0;                     ///< number of losses since the last step
  int most_losses_ = 0;                ///< number of losses that the run accepts before the next step
  std::optional<KeptMaps> kept_maps_;  ///< with --cache-maps
  std::unique_ptr<Trunk> trunk_;
  bool star_only_ = false;                ///< whether two slaves could not connect to each other
  const ClusterTrunk* slaves_ = nullptr;  ///< trunk_, or what trunk_ caches, if the trunk runs on slaves
  Plan plan_;                             ///< the plan of a run without slaves
};

}  // namespace convoy
