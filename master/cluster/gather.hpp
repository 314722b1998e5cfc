// Waits for the slaves of a run, and tells the user how to start them.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "master/cluster/crew.hpp"
#include "master/commands/options.hpp"
#include "train/observer.hpp"

namespace convoy {

/// How to start slaves that reach a master at this endpoint, as a line for people.
std::string how_to_join(const ClusterOptions& options, const std::string& endpoint);
/// The keys of the options, which are made where there are none; null with options.insecure.
std::shared_ptr<KeyRing> open_keys(const ClusterOptions& options, const Observers& observers);
/// Listens for the slaves of the run named `run`, on paced devices if `paced`. Without `keys` it opens those of the
/// options.
std::unique_ptr<Lobby> open_lobby(const ClusterOptions& options, const std::string& run, bool paced,
                                  const Observers& observers, wire::Network& network = wire::tcp_network(),
                                  std::shared_ptr<KeyRing> keys = {});
/// Waits until the crew has `count` slaves. Returns false if `stop` was set before.
bool gather_slaves(const ClusterOptions& options, Crew& crew, int count, const Observers& observers,
                   const std::atomic<bool>& stop);

}  // namespace convoy
