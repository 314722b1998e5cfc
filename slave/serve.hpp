// Runs a slave: it finds a master, serves its run, and waits for the next run.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "energy/sampler.hpp"
#include "kernels/device.hpp"
#include "wire/keys.hpp"
#include "wire/link.hpp"

namespace convoy {

struct SlaveOptions {
  std::string master;                     ///< "tcp://HOST:PORT"; if empty, the slave finds it on the LAN by the key
  std::string name;                       ///< must be unique among the slaves of a run
  std::size_t memory = 0;                 ///< bytes that shards may take; 0 for no bound
  std::optional<wire::JoinKey> key = {};  ///< without it, links are neither encrypted nor authenticated
  int peer_port = 0;                      ///< TCP port at which to listen for other slaves; 0 for any free port
  std::filesystem::path cache = {};   ///< folder in which states of filters are kept for later starts; empty for none
  std::filesystem::path times = {};   ///< folder of known_times(), for later starts; empty for none
  std::filesystem::path images = {};  ///< folder in which images are kept for later starts; empty for none
  std::size_t keep_images = std::size_t{64}
                            << 20;     ///< bytes of images in memory, and as many in the folder; 0 for none
  bool once = false;                   ///< whether to end after the first run
  energy::Sampler* sampler = nullptr;  ///< reads the machine's meter, and outlives the call; null if there is none
  std::string no_meter = {};           ///< why there is no meter, for the master's user
  /// How long the slave waits, after `stop` was set, for the master to release it.
  std::chrono::milliseconds leave_patience = std::chrono::minutes(2);
  std::function<void(const std::string& line)> say =
      {};  ///< takes a line for each change; without it, lines are printed
};

/// Serves runs until `stop` is set, or one run with options.once. When `stop` is set in a run, the master first takes
/// the slave's shards back. Throws Error if the address cannot be parsed.
void serve(const SlaveOptions& options, Device& device, const std::atomic<bool>& stop,
           wire::Network& network = wire::tcp_network());

}  // namespace convoy
