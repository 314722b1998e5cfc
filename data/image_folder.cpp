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

/// The images that are in a folder itself.
std::vector<std::string> images_in(const fs::path& folder) {
  std::vector<std::string> images;
  for (const fs::path& file : entries_of(folder)) {
    std::error_code error;
    if (is_image_file(file.string()) && !fs::is_directory(file, error)) images.push_back(file.string());
  }
  return images;
}

/// The images of a data set by their use.
struct Uses {
  Classes training;
  std::vector<std::string> unlabelled = {};  ///< images for training, if none has a class
  Classes validation;
  Classes test;
};

/// The images in the folders `train`, `val` and `test` of `folder`, of which one of the last two may be missing.
Uses divided(const fs::path& folder) {
  std::error_code error;
  Uses uses{.training = classes_in(folder / "train"), .validation = {}, .test = {}};
  const bool validates = fs::is_directory(folder / "val", error);
  const bool tests = fs::is_directory(folder / "test", error);
  if (!validates && !tests) {
    fail("{}: the folder has 'train' but neither 'test' nor 'val'; add one of them", folder.string());
  }
  if (uses.training.empty()) uses.unlabelled = images_in(folder / "train");
  uses.test = classes_in(folder / (tests ? "test" : "val"));
  if (validates && tests) uses.validation = classes_in(folder / "val");
  return uses;
}

/// The images of `folder`, of which every fifth of a class is for testing.
Uses divided_here(const fs::path& folder) {
  Uses uses;
  for (const auto& [name, files] : classes_in(folder)) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      (i % kTestEvery == kTestEvery - 1 ? uses.test : uses.training)[name].push_back(files[i]);
    }
  }
  return uses;
}

/// Says how many files of formats that are not read a folder of class folders has, or a folder of images without
/// classes.
void count_unread(const fs::path& folder, bool classes, std::vector<std::string>& notices) {
  std::map<std::string, int> unread;
  const auto count = [&](const fs::path& within) {
    for (const fs::path& file : entries_of(within)) {
      const std::string format = other_image_format(file.string());
      if (!format.empty()) ++unread[format];
    }
  };
  if (!classes) count(folder);
  for (const fs::path& each : entries_of(folder)) {
    std::error_code error;
    if (classes && fs::is_directory(each, error)) count(each);
  }
  for (const auto& [format, count] : unread) {
    const char* build = format == "webp" ? ", or build Convoy with libwebp-dev" : "";
    notices.push_back(
        fmt::format("{}: {} files of the format {} are left out; convert them to JPEG or PNG to use them{}",
                    folder.string(), count, format, build));
  }
}

ImageSet set_of(const Classes& classes, const std::vector<std::string>& names, const FeatureShape& input) {
  ImageSet set{.shape = input, .pixels = {}, .labels = {}};
  for (std::size_t label = 0; label < names.size(); ++label) {
    const auto files = classes.find(names[label]);
    if (files == classes.end()) continue;
    for (const std::string& file : files->second) {
      set.files.push_back(file);
      set.labels.push_back(static_cast<std::uint16_t>(label));
    }
  }
  return set;
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
  if (!fs::is_directory(train, error)) return !classes_in(folder).empty();
  return !classes_in(train).empty() || !images_in(train).empty();
}

bool has_images(const std::string& folder) { return !images_in(folder).empty(); }

DataSet read_image_folder(const std::string& folder, const FeatureShape& input, Corrupt corrupt) {
  const fs::path place(folder);
  std::error_code error;
  const bool apart = fs::is_directory(place / "train", error);
  const Uses uses = apart ? divided(place) : divided_here(place);
  const bool labelled = uses.unlabelled.empty();
  const Classes& classes = labelled ? uses.training : uses.test;
  DataSet data{.name = folder, .classes = static_cast<int>(classes.size()), .training = {}, .test = {}};
  if (classes.size() > kMostClasses)
    fail("{}: the folder has {} classes; the limit is {}", folder, classes.size(), kMostClasses);
  for (const auto& [name, files] : classes) data.class_names.push_back(name);
  data.labelled = labelled;
  data.training = set_of(uses.training, data.class_names, input);
  if (!labelled) {
    data.training.files = uses.unlabelled;
    data.training.labels.assign(uses.unlabelled.size(), 0);
  }
  data.validation = set_of(uses.validation, data.class_names, input);
  data.test = set_of(uses.test, data.class_names, input);
  for (const Classes* others : {&uses.test, &uses.validation}) {
    for (const auto& [name, files] : *others) {
      if (classes.contains(name)) continue;
      fail("{}: class {} has a folder for {} but none for {}", folder, name,
           others == &uses.test ? "testing" : "validation", labelled ? "training" : "testing");
    }
  }
  for (const char* part : {"train", "val", "test"}) {
    if (!apart || !fs::is_directory(place / part, error)) continue;
    count_unread(place / part, labelled || std::string_view(part) != "train", data.notices);
  }
  if (!apart) count_unread(place, true, data.notices);
  check(data.training, corrupt, data.notices);
  check(data.test, corrupt, data.notices);
  check(data.validation, corrupt, data.notices);
  if (data.training.count() == 0 || data.test.count() == 0) {
    fail("{}: the folder has {} images for training and {} for testing; expected at least one of each{}", folder,
         data.training.count(), data.test.count(),
         apart ? "" : ", so give each class five images or more, of which every fifth is for testing");
  }
  return data;
}

}  // namespace convoy
