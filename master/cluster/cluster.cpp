#include "master/cluster/cluster.hpp"

#include <algorithm>

#include "devices/paced_device.hpp"
#include "devices/registry.hpp"
#include "master/cluster/gather.hpp"
#include "master/cluster/profile.hpp"
#include "train/cached_trunk.hpp"
#include "train/local_trunk.hpp"

namespace convoy {

Cluster::Cluster(const ClusterOptions& options, const NetOptions& net_options, const Net& net, const Cut& cut,
                 const Observers& observers, const std::atomic<bool>& stop, std::shared_ptr<Device> device)
    : options_(options),
      net_options_(net_options),
      whole_(cut),
      net_(net),
      observers_(observers),
      stop_(stop),
      device_(std::move(device)),
      heads_(place_of(cut)) {
  if (!options.cache_maps.empty()) kept_maps_.emplace(parse_memory(options.cache_maps));
  if (options.slaves > 0 && options.verify > 0) {
    verifier_.emplace(options.verify, *device_, [this](const std::string& text) { notice(observers_, text); });
  }
}

std::unique_ptr<Cluster> Cluster::assemble(const ClusterOptions& options, const NetOptions& net_options, const Net& net,
                                           const Cut& cut, const Observers& observers, const std::atomic<bool>& stop,
                                           wire::Network& network, const std::shared_ptr<KeyRing>& keys) {
  auto cluster = std::make_unique<Cluster>(options, net_options, net, cut, observers, stop,
                                           make_device(net_options.device, net_options.device_options));
  if (options.slaves == 0) {
    cluster->train_alone();
    return cluster;
  }
  if (cut.trunk.empty()) {
    fail("{}: net {} has no convolutional layer, so there is nothing to share with slaves; leave out --slaves",
         net.file, net.name);
  }
  cluster->consider_slices();
  expect_possible(options, cluster->cut(), net.training.batch);
  cluster->lobby_ = open_lobby(options, net.name, cluster->device().info().paced, observers, network, keys);
  cluster->crew_ = std::make_unique<Crew>(*cluster->lobby_);
  if (!gather_slaves(options, *cluster->crew_, options.slaves, observers, stop)) return nullptr;
  cluster->form();
  return cluster;
}

HeadPlace Cluster::place_of(const Cut& cut) {
  return place_of_heads(net_options_, cut, net_.training.batch, *device_,
                        [this](const std::string& text) { notice(observers_, text); });
}

/// Makes the other form of the net, where there is one. A machine that stands for a timed one may not know its stages.
void Cluster::consider_slices() {
  slices_ = slices_of(options_, whole_);
  if (!slices_) return;
  if (asks_for_slices(options_)) return use_slices();
  const PacedDevice* paced = as_paced(*device_);
  if (paced != nullptr && !paced->profile().knows(slices_->cut.trunk[slices_->first].name)) slices_.reset();
}

void Cluster::use_slices() {
  sliced_ = true;
  heads_ = place_of(cut());
}

void Cluster::become(const Replica& replica, Crew& crew) {
  lobby_ = replica.lobby;
  crew_ = std::make_unique<Crew>(*lobby_);
  for (const std::string& name : replica.members) crew.hand_over(name, *crew_);
  planned_.calibration = replica.calibration;
  form();
}

// ---- members -------------------------------------------------------------------------------------------------------

/// Tries again without each slave that is lost meanwhile, until a trunk is made.
void Cluster::form() {
  while (true) {
    try {
      form_once();
      formed_ = true;
      return;
    } catch (const PeerLost& lost) {
      // A slave that cannot hold its shards before the run begins is an error in the setup, so the user must hear of
      // it.
      if (!formed_ && lost.reason() == PeerLost::Reason::cannot_hold) throw Error(lost.what());
      lose(lost);
      if (formed_ && stop_) return finish_alone();
    }
  }
}

/// So that a run which is to stop ends with what it has.
void Cluster::finish_alone() {
  slaves_ = nullptr;
  trunk_.reset();
  part("the master was interrupted");
  train_alone();
}

void Cluster::form_once() {
  slaves_ = nullptr;
  trunk_.reset();
  if (formed_ && slave_count() < static_cast<std::size_t>(options_.least_slaves)) {
    gather_slaves(options_, *crew_, options_.least_slaves, observers_, stop_);
    if (stop_) return finish_alone();
  }
  if (slave_count() == 0) {
    notice(observers_, lobby_ && lobby_->has_several_crews()
                           ? "a replica has no slaves left; the others do its batches, or this machine if none has any"
                           : "this machine goes on alone");
    return train_alone();
  }
  Work work{options_, whole_, net_.training.batch, *device_, heads_, !options_.only_slaves};
  if (slices_) {
    work.sliced.emplace(SlicedNet{*slices_, place_of(slices_->cut)});
    if (sliced_ || formed_) work.dense = sliced_ ? DenseBy::members : DenseBy::master;
  }
  planned_ = plan_members(work, *crew_, observers_, planned_);
  if (planned_.fixed) {
    lobby_->guests().admit_only(planned_.fixed->members(),
                                "this run's shares are fixed, for other slaves; this one waits for the next");
  }
  if (!formed_ && planned_.better_alone()) {
    notice(observers_,
           fmt::format("training on this machine alone, since slaves would not make {} by a tenth; --exchange star and "
                       "ring use them all the same",
                       options_.objective == Objective::time ? "it faster" : "its energy less"));
    part("the master trains alone: slaves would not make it faster");
    return train_alone();
  }
  if (planned_.sliced && !sliced_) use_slices();
  if (star_only_) set_exchange(planned_.plan, Exchange::star);
  execute();
}

void Cluster::execute() {
  const std::vector<MemberProfile>& profiles = planned_.calibration.members;
  const bool shares_move = traits_of(planned_.plan.exchange).moving_shares;
  const auto on_plan = [this](const Plan& plan) {
    for (const auto& observer : observers_) observer->on_plan(plan);
  };
  auto trunk = std::make_unique<ClusterTrunk>(
      cut().trunk, planned_.plan, *crew_, options_.share ? device_.get() : nullptr,
      patience_for(planned_.plan, profiles),
      Rebalancing{.profiles = shares_move ? profiles : std::vector<MemberProfile>()}, on_plan);
  trunk->tell_energy_to(book_);
  if (options_.keep_images) trunk->offer_images(image_bytes_);
  if (verifier_) {
    trunk->verify_with(*verifier_);
    tell_what_is_verified();
  }
  slaves_ = trunk.get();
  use(std::move(trunk));
}

void Cluster::tell_what_is_verified() const {
  std::size_t tiles = 0;
  for (const StagePlan& stage : planned_.plan.stages) {
    tiles += static_cast<std::size_t>(std::ranges::count_if(
        tiles_of(stage), [&](const Tile& tile) { return static_cast<std::size_t>(tile.member) < slave_count(); }));
  }
  const std::size_t seen = verifier_->tiles().size();
  if (seen == tiles) return;
  notice(observers_,
         fmt::format("--verify: the master can check {} of the slaves' {} shards; the others read maps that do not "
                     "pass through it under this plan, or are of stages cut along samples",
                     seen, tiles));
}

void Cluster::train_alone() {
  const FeatureShape& input = net_.input;
  const int batch = net_.training.batch;
  use(std::make_unique<LocalTrunk>(cut().trunk, Shape{batch, input.channels, input.height, input.width}, *device_));
  plan_ = whole_plan(cut().trunk, batch, kMasterName);
}

void Cluster::use(std::unique_ptr<Trunk> trunk) {
  trunk_ = std::move(trunk);
  if (kept_maps_) trunk_ = std::make_unique<CachedTrunk>(std::move(trunk_), cut().heads.front().maps, *kept_maps_);
}

/// Removes the lost slave, or restricts plans to a star if two slaves could not connect to each other. New slaves may
/// come meanwhile, so the number of losses without a step in between is bounded.
void Cluster::lose(const PeerLost& lost) {
  constexpr int kLosses = 20;  // besides one for each slave
  if (losses_++ == 0) most_losses_ = kLosses + static_cast<int>(slave_count());
  if (losses_ > most_losses_) {
    throw PeerLost(lost.peer(),
                   fmt::format("slaves were lost {} times without a step in between; the last loss: {}; end the slaves "
                               "that fail, and go on with --resume",
                               losses_, lost.what()));
  }
  if (lost.reason() == PeerLost::Reason::unreachable) {
    if (star_only_) throw lost;
    notice(observers_, fmt::format("{}; maps go through the master instead (--exchange star)", lost.what()));
    star_only_ = true;
    return;
  }
  if (crew_ && lost.reason() == PeerLost::Reason::wrong) {
    lobby_->guests().ban(lost.peer(), "this slave sent wrong values in this run; it may join the next run");
    for (const auto& observer : observers_) observer->on_wrong_work(*verifier_->found());
  }
  if (!crew_ || !crew_->remove_lost(lost.peer(), lost.what())) throw lost;
  const std::size_t left = slave_count();
  notice(observers_,
         fmt::format("{}; {} left", lost.what(), left == 1 ? "1 slave is" : fmt::format("{} slaves are", left)));
}

Trunk& Cluster::recover(const PeerLost& lost) {
  lose(lost);
  if (stop_) {
    finish_alone();
  } else {
    form();
  }
  for (const auto& observer : observers_) observer->on_plan(plan());
  return trunk();
}

void Cluster::count_step() {
  losses_ = 0;
  if (crew_) crew_->count_step();
}

bool Cluster::members_change() {
  if (!crew_) return false;
  // A trunk on slaves handles newcomers while it receives; without one, nothing else reads the link.
  if (slaves_ == nullptr) crew_->attend();
  return crew_->changes();
}

Trunk& Cluster::regroup() {
  constexpr std::size_t kMostAtOnce = 8;
  constexpr int kPause = 9;
  const auto began = wire::Clock::now();
  Crew& crew = *crew_;
  const std::vector<SlaveInfo> before = crew.slaves();
  for (const SlaveInfo& slave : before) {
    if (!slave.leaving) continue;
    notice(observers_, fmt::format("slave {} leaves", slave.name));
    crew.remove(slave.name, "the run goes on without this slave");
  }
  if (crew.open()) crew.take_in(lobby_->has_several_crews() ? 1 : kMostAtOnce);
  for (const SlaveInfo& slave : crew.slaves()) {
    const bool known = std::ranges::any_of(before, [&](const SlaveInfo& each) { return each.id == slave.id; });
    if (!known) notice(observers_, fmt::format("slave {} ({}) joins", slave.name, slave.device));
  }
  const int losses = losses_;
  form();
  if (losses_ > losses && crew_) {
    crew_->close_for(std::chrono::duration_cast<std::chrono::milliseconds>(kPause * (wire::Clock::now() - began)));
  }
  for (const auto& observer : observers_) observer->on_plan(plan());
  return trunk();
}

void Cluster::dismiss(const std::string& reason) {
  if (!crew_) return;
  crew_->dismiss(reason);
  lobby_->guests().dismiss(reason);
}

/// Dismisses all slaves, and takes part in no run with slaves any more.
void Cluster::part(const std::string& reason) {
  dismiss(reason);
  crew_.reset();
  lobby_.reset();
}

}  // namespace convoy
