// The life of a slave: find the master, serve its run, wait for the next. It outlives its masters.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "kernels/device.hpp"
#include "wire/keys.hpp"

namespace convoy {

struct SlaveOptions {
  std::string master;                     ///< "tcp://HOST:PORT"; empty: found on the LAN, by the key
  std::string name;                       ///< for people; must be unique among the slaves of a run
  std::size_t memory = 0;                 ///< bytes for shards
  std::optional<wire::JoinKey> key = {};  ///< without it, links are neither encrypted nor authenticated
  int peer_port = 0;                      ///< TCP port to listen at for other slaves; 0: any that is free
  std::filesystem::path cache = {};       ///< folder for states of filters, for later starts; empty: none
  bool once = false;                      ///< leave after the first run instead of waiting for the next
  /// How long the master has, once `stop` is set, to bring a run to where it can do without this slave.
  std::chrono::milliseconds leave_patience = std::chrono::minutes(2);
};

/// Serves runs until `stop` is set (or one run, with options.once); a run at hand gets its shards back first. Prints a line whenever something changes. Throws
/// Error for an address that cannot be one.
void serve(const SlaveOptions& options, Device& device, const std::atomic<bool>& stop);

}  // namespace convoy
