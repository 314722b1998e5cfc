// States of filters that this machine has had, by their content: what a master wants loaded and is here need not travel.
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

class StateCache {
 public:
  struct Limits {
    std::size_t memory = std::size_t{256} << 20;  ///< bytes
    std::size_t disk = std::size_t{1} << 30;
  };

  /// Without a folder it keeps states in memory alone. Of more than the limits the least recently used go. A folder that
  /// cannot be read or written is done without.
  explicit StateCache(std::filesystem::path folder) : StateCache(std::move(folder), Limits()) {}
  StateCache(std::filesystem::path folder, const Limits& limits) : folder_(std::move(folder)), limits_(limits) {}

  /// From now on so many bytes in memory at most, and never more than the limit.
  void bound_memory(std::size_t bytes);
  /// Fills `values` with what has the content; false where nothing here has, and values hold anything.
  bool find(const wire::Content& content, const std::vector<std::span<float>>& values);
  void keep(const wire::Content& content, const std::vector<std::span<const float>>& values);
  /// Also in the folder, for a later start of this program.
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
  std::list<Kept> kept_;  ///< the latest used first
  std::map<wire::Content, std::list<Kept>::iterator> by_content_;
  std::size_t bytes_ = 0;
  std::optional<std::size_t> stored_;  ///< bytes in the folder, once they were counted
};

}  // namespace convoy
