// The energy of a command that only runs a net forward, such as a test: what each batch took, and what an image did.
#pragma once

#include "core/stopwatch.hpp"
#include "master/cluster/cluster.hpp"
#include "master/report/energy_total.hpp"
#include "master/report/energy_watch.hpp"
#include "train/learner.hpp"

namespace convoy {

class PassEnergy {
 public:
  /// As EnergyWatch: a named meter that cannot be used is an Error here, before slaves are waited for.
  explicit PassEnergy(const EnergyOptions& options) : watch_(options) {}

  /// The first batch follows. To be called when the members have their weights, which count in no image.
  void begin(const Cluster& cluster);
  /// A batch is done.
  void count(const Cluster& cluster, Learner& learner);
  /// Waits until the slaves have told the energy of the last batch, and returns that of all.
  EnergyReport end(Cluster& cluster);
  /// What the energy was spent on, for so many images. To be called after end().
  EnergyUse use(const Cut& cut, long images) const;

 private:
  EnergyWatch watch_;
  Stopwatch since_batch_;
  Stopwatch since_begin_;
  double seconds_ = 0.0;  ///< from begin() to end()
};

}  // namespace convoy
