#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "core/files.hpp"
#include "data/dataset.hpp"
#include "data/read_bytes.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kImage = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecord = 1 + kImage;
constexpr std::size_t kLargestFile = 100000 * kRecord;
constexpr int kClasses = 10;

void append_batch(const std::string& file, ImageSet& images) {
  const std::vector<std::uint8_t> bytes = read_bytes(file, kLargestFile);
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    fail(
        "{}: {} bytes are not a whole number of records of {} bytes (a label, then 3x32x32 pixels); the file is cut "
        "off or not "
        "in CIFAR-10's binary version, so fetch it again",
        file, bytes.size(), kRecord);
  }
  for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
    if (bytes[at] >= kClasses) {
      fail("{}: record {} has label {}; expected 0 to {}", file, at / kRecord, bytes[at], kClasses - 1);
    }
    images.labels.push_back(bytes[at]);
    images.pixels.insert(images.pixels.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at + 1),
                         bytes.begin() + static_cast<std::ptrdiff_t>(at + kRecord));
  }
}

/// A line for each class; empty lines follow. A file of another kind is left out with a notice.
void read_names(const std::string& file, DataSet& data) {
  std::error_code error;
  if (!fs::exists(file, error)) return;
  std::istringstream lines(read_text(file));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  constexpr std::size_t kLongest = 256;  // as in net files
  const bool short_enough = std::ranges::all_of(names, [](const auto& name) { return name.size() <= kLongest; });
  if (!short_enough) {
    data.notices.push_back(
        fmt::format("{}: it has a line of more than {} bytes; classes are shown by number", file, kLongest));
  } else if (names.size() == kClasses) {
    data.class_names = std::move(names);
  } else {
    data.notices.push_back(
        fmt::format("{}: it names {} classes, expected {}; classes are shown by number", file, names.size(), kClasses));
  }
}

}  // namespace

DataSet read_cifar10(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("data_batch_", 0) == 0 && entry.path().extension() == ".bin") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) fail("{}: the folder has no data_batch_*.bin; expected CIFAR-10's binary version", folder);
  DataSet data{.name = "CIFAR-10", .classes = kClasses};
  data.training.shape = data.test.shape = {3, 32, 32};
  for (const std::string& file : files) append_batch(file, data.training);
  append_batch(folder + "/test_batch.bin", data.test);
  read_names(folder + "/batches.meta.txt", data);
  return data;
}

}  // namespace convoy
