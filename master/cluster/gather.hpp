// Waits for the slaves of a run, and tells the user how to start them.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "master/cluster/roster.hpp"
#include "master/commands/options.hpp"
#include "train/observer.hpp"

namespace convoy {

/// Listens for the slaves of the run named `run` and waits until there are options.slaves of them, on paced devices if
/// `paced`. Returns nothing if `stop` was set before.
std::unique_ptr<Roster> gather_slaves(const ClusterOptions& options, const std::string& run, bool paced,
                                      const Observers& observers, const std::atomic<bool>& stop,
                                      wire::Network& network = wire::tcp_network());
/// Waits in the course of a run until the roster has `count` slaves. Returns false if `stop` was set before.
bool gather_slaves(const ClusterOptions& options, Roster& roster, int count, const Observers& observers,
                   const std::atomic<bool>& stop);

}  // namespace convoy
