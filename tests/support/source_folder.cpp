#include "tests/support/source_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace convoy {

std::string source_folder() {
  const std::filesystem::path tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::ifstream named(tests / "source-folder");
  std::string folder;
  // Where nothing is named, as in an unpacked bundle, the tests are in bin/tests of that folder.
  return std::getline(named, folder) ? folder : tests.parent_path().parent_path().string();
}

std::string real_data(const std::string& name) {
  const char* named = std::getenv("CONVOY_TEST_DATA");
  const std::string folder = (named != nullptr ? std::string(named) : source_folder() + "/../shared/data") + "/" + name;
  return std::filesystem::is_directory(folder) ? folder : "";
}

}  // namespace convoy
