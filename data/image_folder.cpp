#include <algorithm>
#include <filesystem>
#include <map>

#include "data/dataset.hpp"
#include "data/image_file.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr int kTestEvery = 5;
constexpr std::size_t kMostClasses = 65535;

/// The entries of a folder that are not hidden, sorted so that the order is the same on every machine.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(".")) entries.push_back(at->path());
  }
  if (error) fail("{}: the folder cannot be listed: {}", folder.string(), error.message());
  std::ranges::sort(entries);
  return entries;
}

/// The files of each class, by the name of the class.
using Classes = std::map<std::string, std::vector<std::string>>;

Classes classes_in(const fs::path& folder) {
  Classes classes;
  for (const fs::path& each : entries_of(folder)) {
    std::error_code error;
    if (!fs::is_directory(each, error)) continue;
    for (const fs::path& file : entries_of(each)) {
      if (is_image_file(file.string())) classes[each.filename().string()].push_back(file.string());
    }
  }
  return classes;
}

fs::path test_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"test", "val"}) {
    if (fs::is_directory(folder / name, error)) return folder / name;
  }
  return {};
}

/// Decodes all photographs of a set. Throws Error for one that cannot be decoded, or leaves it out with a notice.
void check(ImageSet& set, Corrupt corrupt, std::vector<std::string>& notices) {
  std::vector<std::string> wrong(set.files.size());
  on_all_cores(set.count(), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    try {
      read_image(set.files[at], set.shape);
    } catch (const Error& error) {
      wrong[at] = error.what();
    }
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i].empty()) {
      std::swap(set.files[kept], set.files[i]);
      set.labels[kept++] = set.labels[i];
      continue;
    }
    if (corrupt == Corrupt::refuse)
      fail("{}; repair or remove the file, or give --corrupt skip to leave out such images", wrong[i]);
    notices.push_back(wrong[i] + "; the image is left out");
  }
  set.files.resize(kept);
  set.labels.resize(kept);
}

}  // namespace

bool has_image_folders(const std::string& folder) {
  const fs::path train = fs::path(folder) / "train";
  std::error_code error;
  return !classes_in(fs::is_directory(train, error) ? train : fs::path(folder)).empty();
}

DataSet read_image_folder(const std::string& folder, const FeatureShape& input, Corrupt corrupt) {
  const fs::path place(folder);
  std::error_code error;
  const bool apart = fs::is_directory(place / "train", error);
  const Classes training = classes_in(apart ? place / "train" : place);
  Classes test;
  if (apart) {
    const fs::path other = test_folder(place);
    if (other.empty()) fail("{}: the folder has 'train' but neither 'test' nor 'val'; add one of them", folder);
    test = classes_in(other);
  }
  DataSet data{.name = folder, .classes = static_cast<int>(training.size()), .training = {}, .test = {}};
  if (training.size() > kMostClasses)
    fail("{}: the folder has {} classes; the limit is {}", folder, training.size(), kMostClasses);
  data.training.shape = data.test.shape = input;
  for (const auto& [name, files] : training) {
    const auto label = static_cast<std::uint16_t>(data.class_names.size());
    data.class_names.push_back(name);
    const auto add = [label](ImageSet& set, const std::string& file) {
      set.files.push_back(file);
      set.labels.push_back(label);
    };
    for (std::size_t i = 0; i < files.size(); ++i) {
      add(!apart && i % kTestEvery == kTestEvery - 1 ? data.test : data.training, files[i]);
    }
    for (const std::string& file : test[name]) add(data.test, file);
  }
  for (const auto& [name, files] : test) {
    if (!training.contains(name)) fail("{}: class {} has a folder for testing but none for training", folder, name);
  }
  check(data.training, corrupt, data.notices);
  check(data.test, corrupt, data.notices);
  if (data.training.count() == 0 || data.test.count() == 0) {
    fail("{}: the folder has {} images for training and {} for testing; expected at least one of each", folder,
         data.training.count(), data.test.count());
  }
  return data;
}

}  // namespace convoy
