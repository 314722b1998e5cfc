#include "master/commands/pass_energy.hpp"

namespace convoy {

void PassEnergy::begin(const Cluster& cluster) {
  watch_.begin(is_gpu(cluster.device().info().name));
  since_batch_.restart();
  since_begin_.restart();
}

void PassEnergy::count(const Cluster& cluster, Learner& learner) {
  watch_.count(learner.take_times(), since_batch_.restart(), !cluster.has_slaves());
}

EnergyReport PassEnergy::end(Cluster& cluster) {
  try {
    cluster.trunk().settle();
  } catch (const PeerLost&) {
    // Every image has its result, and what the slave told before counts.
  }
  seconds_ = since_begin_.seconds();
  return watch_.report(cluster.energies());
}

EnergyUse PassEnergy::use(const Cut& cut, long images) const {
  EnergyUse use{.images = static_cast<double>(images), .seconds = seconds_};
  for (const Stage& stage : cut.trunk) use.flops += use.images * conv_flops(stage, 1, stage.conv.filters);
  return use;
}

}  // namespace convoy
