#include "slave/state_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace convoy {
namespace {

namespace fs = std::filesystem;

std::size_t size_of(const std::vector<std::span<const float>>& values) {
  std::size_t bytes = 0;
  for (const std::span<const float> each : values) bytes += each.size_bytes();
  return bytes;
}

std::vector<std::span<const float>> constant(const std::vector<std::span<float>>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

void StateCache::bound_memory(std::size_t bytes) {
  bound_ = std::min(bytes, limits_.memory);
  let_go();
}

bool StateCache::find(const wire::Content& content, const std::vector<std::span<float>>& values) {
  const auto known = by_content_.find(content);
  if (known == by_content_.end()) return read(content, values);
  kept_.splice(kept_.begin(), kept_, known->second);
  std::span<const float> rest = known->second->values;
  if (rest.size_bytes() != size_of(constant(values))) return false;
  for (const std::span<float> each : values) {
    std::ranges::copy(rest.first(each.size()), each.begin());
    rest = rest.subspan(each.size());
  }
  return true;
}

bool StateCache::read(const wire::Content& content, const std::vector<std::span<float>>& values) {
  if (folder_.empty()) return false;
  std::ifstream file(file_of(content), std::ios::binary);
  for (const std::span<float> each : values) {
    file.read(reinterpret_cast<char*>(each.data()), static_cast<std::streamsize>(each.size_bytes()));
  }
  // Other programs may write to the folder, so a file whose values do not have the hash of its name is ignored.
  if (!file || wire::content_of(constant(values)) != content) return false;
  std::error_code ignored;
  fs::last_write_time(file_of(content), fs::file_time_type::clock::now(), ignored);
  return true;
}

void StateCache::keep(const wire::Content& content, const std::vector<std::span<const float>>& values) {
  if (by_content_.contains(content)) return;
  Kept kept{content, {}};
  kept.values.reserve(size_of(values) / sizeof(float));
  for (const std::span<const float> each : values) kept.values.insert(kept.values.end(), each.begin(), each.end());
  bytes_ += kept.values.size() * sizeof(float);
  kept_.push_front(std::move(kept));
  by_content_[content] = kept_.begin();
  let_go();
}

/// Drops the least recently used states beyond the bound.
void StateCache::let_go() {
  while (bytes_ > bound_) {
    bytes_ -= kept_.back().values.size() * sizeof(float);
    by_content_.erase(kept_.back().content);
    kept_.pop_back();
  }
}

void StateCache::store(const wire::Content& content, const std::vector<std::span<const float>>& values) {
  keep(content, values);
  std::error_code error;
  if (folder_.empty() || fs::exists(file_of(content), error)) return;
  fs::create_directories(folder_, error);
  make_room(size_of(values));
  // The file is renamed when complete, because another slave may read it, or this slave may be killed, at any time.
  const fs::path aside = folder_ / fmt::format("{}.{}", to_text(content), ::getpid());
  std::ofstream file(aside, std::ios::binary);
  for (const std::span<const float> each : values) {
    file.write(reinterpret_cast<const char*>(each.data()), static_cast<std::streamsize>(each.size_bytes()));
  }
  file.close();
  if (file) fs::rename(aside, file_of(content), error);
  if (!file || error) {
    fs::remove(aside, error);
    return;
  }
  *stored_ += size_of(values);
}

/// Removes the least recently used files until `bytes` more fit into the folder.
void StateCache::make_room(std::size_t bytes) {
  if (stored_ && *stored_ + bytes <= limits_.disk) return;
  struct File {
    fs::file_time_type used;
    fs::path path;
    std::size_t bytes = 0;
  };
  std::vector<File> files;
  std::error_code error;
  std::size_t all = 0;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    std::error_code gone;  // another slave may remove files at the same time
    const File file{entry.last_write_time(gone), entry.path(), static_cast<std::size_t>(entry.file_size(gone))};
    if (gone) continue;
    all += file.bytes;
    files.push_back(file);
  }
  std::ranges::sort(files, {}, &File::used);
  for (auto file = files.begin(); file != files.end() && all + bytes > limits_.disk; ++file) {
    fs::remove(file->path, error);
    all -= file->bytes;
  }
  stored_ = all;
}

}  // namespace convoy
