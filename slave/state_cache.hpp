// States of filters that this machine has had, by the hash of their values. States in the cache need not travel when a
// master loads them again.
#pragma once

#include <cstddef>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "wire/contents.hpp"

namespace convoy {

/// Keeps blocks of states in memory and, if it has a folder, on disk. Beyond its limits, the least recently used blocks
/// are dropped.
class StateCache {
 public:
  struct Limits {
    std::size_t memory = std::size_t{256} << 20;  ///< bytes
    std::size_t disk = std::size_t{1} << 30;      ///< bytes
  };

  /// With an empty `folder`, states are kept in memory only. Errors of the folder are ignored: states that cannot be
  /// read or written are treated as missing.
  explicit StateCache(std::filesystem::path folder) : StateCache(std::move(folder), Limits()) {}
  StateCache(std::filesystem::path folder, const Limits& limits) : folder_(std::move(folder)), limits_(limits) {}

  /// Lowers the memory limit to `bytes`; a value above the limit of the constructor has no effect.
  void bound_memory(std::size_t bytes);
  /// Fills `values` with the state that has this hash. Returns false if the cache does not have it; `values` are then
  /// undefined.
  bool find(const wire::Content& content, const std::vector<std::span<float>>& values);
  /// Keeps a state in memory.
  void keep(const wire::Content& content, const std::vector<std::span<const float>>& values);
  /// Keeps a state in memory and in the folder, for a later start of the program.
  void store(const wire::Content& content, const std::vector<std::span<const float>>& values);

 private:
  struct Kept {
    wire::Content content;
    std::vector<float> values;
  };

  bool read(const wire::Content& content, const std::vector<std::span<float>>& values);
  std::filesystem::path file_of(const wire::Content& content) const { return folder_ / to_text(content); }
  void let_go();
  void make_room(std::size_t bytes);

  std::filesystem::path folder_;
  Limits limits_;
  std::size_t bound_ = limits_.memory;
  std::list<Kept> kept_;  ///< the most recently used first
  std::map<wire::Content, std::list<Kept>::iterator> by_content_;
  std::size_t bytes_ = 0;
  std::optional<std::size_t> stored_;  ///< bytes in the folder; empty until they are counted
};

}  // namespace convoy
