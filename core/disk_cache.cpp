#include "core/disk_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <iterator>

namespace convoy {
namespace {

/// The 64-bit FNV-1a hash (Fowler, Noll and Vo).
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

/// Writes a temporary file next to `path` and returns its name, so that the caller can rename it atomically: another
/// slave may read `path` at the same time.
std::optional<std::filesystem::path> write_aside(const std::filesystem::path& path, const std::string& content) {
  if (path.empty()) return std::nullopt;
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  static std::atomic<int> count{0};
  const std::filesystem::path aside = path.string() + fmt::format(".{}-{}", ::getpid(), ++count);
  std::ofstream file(aside, std::ios::binary);
  file << content << std::flush;
  if (!file) return std::nullopt;
  return aside;
}

}  // namespace

// A file holds the key and the value, so that another key with the same hash is not mistaken for it.

std::filesystem::path DiskCache::file_of(const std::string& key) const {
  return folder_.empty() ? folder_ : folder_ / fmt::format("{:016x}.bin", hash_of(key));
}

std::optional<std::string> DiskCache::recall(const std::string& key) const {
  std::ifstream file(file_of(key), std::ios::binary);
  if (!file) return std::nullopt;
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  if (content.size() <= key.size() || content.compare(0, key.size(), key) != 0) return std::nullopt;
  return content.substr(key.size());
}

void DiskCache::remember(const std::string& key, const std::string& value) const {
  const std::filesystem::path path = file_of(key);
  std::error_code ignored;
  if (const auto aside = write_aside(path, key + value)) std::filesystem::rename(*aside, path, ignored);
}

std::string DiskCache::settle(const std::string& key, const std::string& value) const {
  const std::filesystem::path path = file_of(key);
  const auto aside = write_aside(path, key + value);
  if (!aside) return value;
  std::error_code taken;
  std::filesystem::create_hard_link(*aside, path, taken);
  std::error_code ignored;
  std::filesystem::remove(*aside, ignored);
  if (!taken) return value;
  if (auto first = recall(key)) return *first;
  remember(key, value);  // the existing file holds another key, or is damaged
  return value;
}

}  // namespace convoy
