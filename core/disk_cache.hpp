// A disk cache of facts that take long to find, such as what a driver compiled, kept between runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace convoy {

/// Files of one folder, each with a value and its key. Processes may use a folder at the same time. What cannot be read is
/// missing, and what cannot be written is not kept.
class DiskCache {
 public:
  /// With an empty `folder`, nothing is kept.
  explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Returns the value stored under `key`; empty where there is none or it cannot be read.
  std::optional<std::string> recall(const std::string& key) const;
  /// Stores the value for every process of this user.
  void remember(const std::string& key, const std::string& value) const;
  /// Stores the value unless another process has stored one, and returns the stored value, so that processes that measure
  /// at the same time agree.
  std::string settle(const std::string& key, const std::string& value) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace convoy
