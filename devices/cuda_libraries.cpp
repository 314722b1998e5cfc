#include "devices/cuda_libraries.hpp"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "core/error.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The parts of a list such as PATH that are not empty.
std::vector<std::string> split_path(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ':');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

/// The folders in `folder` whose names begin with `prefix`, in descending order: the newest version comes first.
std::vector<fs::path> folders_in(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix) && it->is_directory(error)) found.push_back(it->path());
  }
  std::ranges::sort(found, std::greater<>());
  return found;
}

class Folders {
 public:
  void add(const fs::path& folder) {
    std::error_code ignored;
    if (fs::is_directory(folder, ignored) && std::ranges::find(found_, folder) == found_.end())
      found_.push_back(folder);
  }
  void add_toolkit(const fs::path& root) {
    for (const char* place : {"lib64", "lib", "targets/x86_64-linux/lib"}) add(root / place);
  }
  /// A Python installation or environment, whose packages are in lib/python3.VERSION/site-packages.
  void add_python(const fs::path& root) {
    for (const fs::path& python : folders_in(root / "lib", "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : folders_in(python / packages / "nvidia", "")) add(package / "lib");
      }
    }
  }
  std::vector<fs::path> take() { return std::move(found_); }

 private:
  std::vector<fs::path> found_;
};

/// The roots of the Python environments that the user works with.
std::vector<fs::path> python_roots() {
  std::vector<fs::path> roots;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string root = variable(name); !root.empty()) roots.emplace_back(root);
  }
  std::error_code ignored;
  for (const fs::path folder : split_path(variable("PATH"))) {
    if (fs::exists(folder / "python3", ignored)) roots.push_back(folder.parent_path());
  }
  if (const std::string home = variable("HOME"); !home.empty()) roots.push_back(fs::path(home) / ".local");
  roots.emplace_back("/usr/local");
  roots.emplace_back("/usr");
  return roots;
}

/// The library that the dynamic loader missed, by its message; empty where something else was wrong.
std::string missing_library(const std::string& message) {
  const auto end = message.find(": cannot open shared object file");
  return end == std::string::npos ? "" : message.substr(0, end);
}

[[noreturn]] void fail_without(const std::string& library, const std::string& file,
                               const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) names.push_back(folder.string());
  const std::string suffix = CONVOY_CUDA_MAJOR < 13 ? fmt::format("-cu{}", CONVOY_CUDA_MAJOR) : "";
  fail(
      "{} needs {}, which is neither in the system's library path nor in {}; install it with `pip install "
      "nvidia-cublas{} "
      "nvidia-cudnn-cu{}` or with CUDA {} and cuDNN from NVIDIA, or name its folder in the variable "
      "CONVOY_CUDA_LIBRARIES",
      file, library,
      names.empty() ? "a CUDA Toolkit or a Python package, of which none was found"
                    : fmt::format("{}", fmt::join(names, ", ")),
      suffix, CONVOY_CUDA_MAJOR, CONVOY_CUDA_MAJOR);
}

void* open(const std::string& file, const std::vector<fs::path>& folders, std::set<std::string>& opened) {
  while (true) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const std::string why = dlerror();
    const std::string missing = missing_library(why);
    if (missing.empty() || missing == file) fail("{} cannot be loaded: {}", file, why);
    const auto has_it = [&](const fs::path& folder) { return fs::exists(folder / missing); };
    const auto place = std::ranges::find_if(folders, has_it);
    // A library that was opened and is missed all the same bears another name inside.
    if (place == folders.end() || !opened.insert(missing).second) fail_without(missing, file, folders);
    open((*place / missing).string(), folders, opened);
  }
}

}  // namespace

std::vector<fs::path> cuda_library_folders() {
  Folders folders;
  for (const std::string& folder : split_path(variable("CONVOY_CUDA_LIBRARIES"))) folders.add(folder);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string root = variable(name); !root.empty()) folders.add_toolkit(root);
  }
  folders.add_toolkit("/usr/local/cuda");
  for (const fs::path& root : folders_in("/usr/local", "cuda-")) folders.add_toolkit(root);
  for (const fs::path& root : python_roots()) folders.add_python(root);
  return folders.take();
}

void* open_with_libraries(const std::string& file, const std::vector<fs::path>& folders) {
  std::set<std::string> opened;
  return open(file, folders, opened);
}

}  // namespace convoy
