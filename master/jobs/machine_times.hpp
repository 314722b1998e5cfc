// How fast the machines are that jobs are placed on.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "master/cluster/key_ring.hpp"
#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"
#include "train/observer.hpp"
#include "wire/link.hpp"

namespace convoy {

/// The floating-point operations of a training step: forward, and about twice as many backward.
double step_operations(const Cut& cut, int batch);

/// What is timed, and where the slaves come from.
struct TimedNet {
  const ClusterOptions& cluster;
  const NetOptions& net;
  const Cut& cut;
  int batch = 0;
  std::set<int> groups;  ///< numbers of slaves of which groups are predicted, too
  wire::Network& network;
  std::shared_ptr<KeyRing> keys;
};

/// Seconds of a training step.
struct MachineTimes {
  std::map<std::string, double>
      slaves;          ///< by name: a slave with the stages, the master with the heads; may be infinite
  double alone = 0.0;  ///< the master alone; 0 where it is not known
  /// By its number of slaves, the step of a group of the fastest slaves, divided by the step that it would have if
  /// their speeds added up. Groups of more slaves than were timed are left out.
  std::map<int, double> slowdowns = {};
};

/// Waits for `count` slaves of the network, has them and this machine time the net, and lets them go. Returns no times
/// if `stop` was set before all had come. Throws PeerLost.
MachineTimes time_machines(const TimedNet& what, int count, const Observers& observers, const std::atomic<bool>& stop);

}  // namespace convoy
