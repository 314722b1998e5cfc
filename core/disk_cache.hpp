// A disk cache of values that take long to find, such as compiled kernels; it is kept between runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace convoy {

/// Files of one folder, each with a value and its key. Processes may use a folder at the same time. A value that cannot
/// be read counts as missing, and a value that cannot be written is not kept.
class DiskCache {
 public:
  /// With an empty `folder`, nothing is kept.
  explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Returns the value stored under `key`; empty where there is none or it cannot be read.
  std::optional<std::string> recall(const std::string& key) const;
  /// Stores the value for every process of this user.
  void remember(const std::string& key, const std::string& value) const;
  /// Stores the value unless another process has stored one, and returns the stored value, so that processes that
  /// measure at the same time agree.
  std::string settle(const std::string& key, const std::string& value) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace convoy
