#include "slave/image_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "CVI1";
constexpr const char* kImagesExtension = ".images";
constexpr std::size_t kBytesOfHead = 8;
constexpr std::size_t kBytesOfEntry = 20;
/// A file is written when so many bytes of images have come.
constexpr std::size_t kBytesOfFile = std::size_t{8} << 20;
constexpr std::uint32_t kMostImagesInFile = 1U << 20;
constexpr std::size_t kMostImagesOnDisk = std::size_t{1} << 20;
/// What an image takes in memory besides its pixels.
constexpr std::size_t kBytesBesidePixels = 256;

void append_number(std::vector<std::uint8_t>& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

std::uint64_t number_at(const std::uint8_t* from, int bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

bool read_into(std::ifstream& file, std::span<std::uint8_t> to) {
  file.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
  return static_cast<bool>(file);
}

/// Looks at files of other programs, too, which may remove them meanwhile.
struct FileOnDisk {
  fs::file_time_type used;
  fs::path path;
  std::size_t bytes = 0;
};

std::vector<FileOnDisk> image_files_in(const fs::path& folder) {
  std::vector<FileOnDisk> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code gone;
    if (entry.path().extension() != kImagesExtension || !entry.is_regular_file(gone)) continue;
    const FileOnDisk file{entry.last_write_time(gone), entry.path(), static_cast<std::size_t>(entry.file_size(gone))};
    if (!gone) files.push_back(file);
  }
  std::ranges::sort(files, {}, &FileOnDisk::used);
  return files;
}

/// Removes files that programs which were killed have not finished.
void remove_unfinished(const fs::path& folder) {
  constexpr auto kAbandoned = std::chrono::hours(1);
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code gone;
    if (entry.path().extension() == kImagesExtension || !entry.is_regular_file(gone)) continue;
    if (const auto written = entry.last_write_time(gone); !gone && now - written > kAbandoned) old.push_back(entry);
  }
  for (const fs::path& each : old) fs::remove(each, error);
}

}  // namespace

ImageStore::ImageStore(fs::path folder, const Limits& limits) : folder_(std::move(folder)), limits_(limits) {
  if (!keeps_any() || limits_.disk == 0) folder_.clear();
  if (folder_.empty()) return;
  remove_unfinished(folder_);
  for (const FileOnDisk& each : image_files_in(folder_)) index(each.path);
}

ImageStore::~ImageStore() {
  try {
    save();
  } catch (const std::exception&) {
    // The images are sent again.
  }
}

/// Takes note of the images in a file. Removes a file that is damaged.
void ImageStore::index(const fs::path& path) {
  std::error_code error;
  const std::uint64_t all = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> head(kBytesOfHead);
  if (error || !file) return;
  const auto refuse = [&] { fs::remove(path, error); };
  if (!read_into(file, head) || !std::ranges::equal(std::span(head).first(kMagic.size()), kMagic)) return refuse();
  const auto count = static_cast<std::uint32_t>(number_at(head.data() + kMagic.size(), 4));
  if (count > kMostImagesInFile || kBytesOfHead + count * kBytesOfEntry > all) return refuse();
  std::vector<std::uint8_t> table(count * kBytesOfEntry);
  if (!read_into(file, table)) return refuse();
  std::uint64_t at = kBytesOfHead + table.size();
  std::vector<std::pair<wire::Content, Place>> found;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint8_t* entry = table.data() + i * kBytesOfEntry;
    const auto size = static_cast<std::uint32_t>(number_at(entry + 16, 4));
    found.push_back({{number_at(entry, 8), number_at(entry + 8, 8)}, {.file = files_.size(), .at = at, .size = size}});
    at += size;
  }
  if (at != all) return refuse();
  files_.push_back({.path = path});
  for (const auto& [content, place] : found) on_disk_.insert_or_assign(content, place);
}

bool ImageStore::find(const wire::Content& content, std::span<std::uint8_t> pixels) {
  const auto known = by_content_.find(content);
  if (known == by_content_.end()) return read(content, pixels);
  kept_.splice(kept_.begin(), kept_, known->second);
  const std::vector<std::uint8_t>& kept = *known->second->pixels;
  if (kept.size() != pixels.size()) return false;
  std::ranges::copy(kept, pixels.begin());
  return true;
}

bool ImageStore::read(const wire::Content& content, std::span<std::uint8_t> pixels) {
  const auto found = on_disk_.find(content);
  if (found == on_disk_.end() || found->second.size != pixels.size()) return false;
  const Place place = found->second;
  File& from = files_[place.file];
  std::ifstream file(from.path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(place.at));
  if (!read_into(file, pixels) || wire::content_of(std::span<const std::uint8_t>(pixels)) != content) {
    forget(place.file);
    return false;
  }
  std::error_code ignored;
  if (!std::exchange(from.used, true)) fs::last_write_time(from.path, fs::file_time_type::clock::now(), ignored);
  remember(content, std::make_shared<const std::vector<std::uint8_t>>(pixels.begin(), pixels.end()));
  return true;
}

/// Forgets the images of a file that is damaged or gone.
void ImageStore::forget(std::size_t file) {
  std::error_code ignored;
  fs::remove(files_[file].path, ignored);
  std::erase_if(on_disk_, [&](const auto& each) { return each.second.file == file; });
}

void ImageStore::keep(const wire::Content& content, std::span<const std::uint8_t> pixels) {
  if (!keeps_any()) return;
  const auto shared = std::make_shared<const std::vector<std::uint8_t>>(pixels.begin(), pixels.end());
  remember(content, shared);
  const bool full = on_disk_.size() + unsaved_.size() >= kMostImagesOnDisk;
  if (folder_.empty() || full || on_disk_.contains(content)) return;
  unsaved_.push_back({content, shared});
  unsaved_bytes_ += pixels.size();
  if (unsaved_bytes_ >= std::min(kBytesOfFile, limits_.disk / 2)) save();
}

/// Keeps an image in memory, and drops others beyond the limit.
void ImageStore::remember(const wire::Content& content, Pixels pixels) {
  if (by_content_.contains(content)) return;
  bytes_ += pixels->size() + kBytesBesidePixels;
  kept_.push_front({content, std::move(pixels)});
  by_content_[content] = kept_.begin();
  while (bytes_ > limits_.memory) {
    bytes_ -= kept_.back().pixels->size() + kBytesBesidePixels;
    by_content_.erase(kept_.back().content);
    kept_.pop_back();
  }
}

void ImageStore::save() {
  const std::vector<Kept> images = std::exchange(unsaved_, {});
  const std::size_t pixels = std::exchange(unsaved_bytes_, 0);
  const std::size_t all = kBytesOfHead + images.size() * kBytesOfEntry + pixels;
  if (images.empty() || images.size() > kMostImagesInFile) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!make_room(all)) return;
  std::vector<std::uint8_t> bytes(kMagic.begin(), kMagic.end());
  append_number(bytes, images.size(), 4);
  for (const Kept& each : images) {
    append_number(bytes, each.content.high, 8);
    append_number(bytes, each.content.low, 8);
    append_number(bytes, each.pixels->size(), 4);
  }
  for (const Kept& each : images) bytes.insert(bytes.end(), each.pixels->begin(), each.pixels->end());
  // The file is renamed when complete, because another slave may read it, or this slave may be killed, at any time.
  const std::string name = to_text(wire::content_of(std::span<const std::uint8_t>(bytes)));
  const fs::path aside = folder_ / fmt::format("{}.{}", name, ::getpid());
  const fs::path path = folder_ / (name + kImagesExtension);
  std::ofstream file(aside, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(aside, path, error);
  if (!file || error) {
    fs::remove(aside, error);
    return;
  }
  index(path);
}

/// Removes the files that were not used for longest until `bytes` more fit into the folder. Returns whether they do.
bool ImageStore::make_room(std::size_t bytes) {
  if (bytes > limits_.disk) return false;
  const std::vector<FileOnDisk> there = image_files_in(folder_);
  std::size_t all = bytes;
  for (const FileOnDisk& each : there) all += each.bytes;
  for (auto each = there.begin(); each != there.end() && all > limits_.disk; ++each) {
    all -= each->bytes;
    const auto known = std::ranges::find(files_, each->path, &File::path);
    std::error_code ignored;
    fs::remove(each->path, ignored);
    if (known != files_.end()) forget(static_cast<std::size_t>(known - files_.begin()));
  }
  return all <= limits_.disk;
}

}  // namespace convoy
