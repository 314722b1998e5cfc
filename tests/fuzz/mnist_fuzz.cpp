// Reads a data set with a fuzzed IDX file of images, plain or gzipped, beside valid files.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "data/dataset.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

/// A folder of this process that is removed when the process ends.
class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / ("convoy-fuzz-" + std::to_string(getpid()))).string();
};

std::string images(char count) {
  return std::string("\0\0\x08\x03\0\0\0", 7) + count + std::string("\0\0\0\x02\0\0\0\x02", 8) +
         std::string(static_cast<std::size_t>(count) * 4, 'x');
}
std::string labels(char count) {
  return std::string("\0\0\x08\x01\0\0\0", 7) + count + std::string(static_cast<std::size_t>(count), '\1');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  static const Folder folder;
  static const bool sound = [] {
    folder.put("train-labels-idx1-ubyte", labels(2));
    folder.put("t10k-images-idx3-ubyte", images(2));
    folder.put("t10k-labels-idx1-ubyte", labels(2));
    return true;
  }();
  if (!sound) return 0;
  folder.put("train-images-idx3-ubyte", std::string(reinterpret_cast<const char*>(data), size));
  return try_to([&] { open_data(folder.path(), 1); });
}
