// CONTRIBUTING.md tells people what cmake/folders.txt tells CMake and the other tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/house/documents.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy::house {
namespace {

namespace fs = std::filesystem;
using ::testing::UnorderedElementsAreArray;

const fs::path kTree = source_folder();

std::string contributing() {
  std::ostringstream text;
  text << std::ifstream(kTree / "CONTRIBUTING.md").rdbuf();
  return text.str();
}

/// A line of cmake/folders.txt.
struct Folder {
  std::string name;
  std::vector<std::string> may_include;
};

std::vector<Folder> folders() {
  std::vector<Folder> read;
  std::ifstream lines(kTree / "cmake/folders.txt");
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (line.starts_with('#') || colon == std::string::npos) continue;
    Folder folder{.name = line.substr(0, colon), .may_include = {}};
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) folder.may_include.push_back(word);
    read.push_back(std::move(folder));
  }
  return read;
}

bool holds_code(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    const std::string end = entry.path().extension().string();
    return end == ".cpp" || end == ".hpp" || end == ".cu";
  });
}

/// The folders of code within folders of code: "nets/file".
std::set<std::string> rooms() {
  std::set<std::string> found;
  for (const Folder& folder : folders()) {
    if (folder.name == "tests") continue;
    for (const auto& entry : fs::directory_iterator(kTree / folder.name)) {
      if (entry.is_directory() && holds_code(entry.path())) found.insert(fs::relative(entry.path(), kTree).string());
    }
  }
  return found;
}

TEST(Folders, ContributingSaysWhatTheyMayInclude) {
  const std::vector<FolderRow> rows = folder_rows(contributing());
  const std::vector<Folder> table = folders();
  ASSERT_GT(table.size(), 10U);
  ASSERT_EQ(rows.size(), table.size()) << "the table of CONTRIBUTING.md has a row for each folder of cmake/folders.txt";
  std::vector<std::string> above;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].folder, table[i].name)
        << "CONTRIBUTING.md:" << rows[i].line << ": the order is that of the build";
    std::vector<std::string> allowed = rows[i].may_include;
    if (allowed == std::vector<std::string>{"nothing"}) allowed.clear();
    if (allowed == std::vector<std::string>{"everything", "above"}) allowed = above;
    EXPECT_THAT(allowed, UnorderedElementsAreArray(table[i].may_include)) << "CONTRIBUTING.md:" << rows[i].line;
    above.push_back(table[i].name);
  }
}

TEST(Folders, ContributingNamesTheRoomsWithin) {
  const std::string text = contributing();
  const std::set<std::string> there = rooms();
  ASSERT_GT(there.size(), 5U);
  for (const std::string& room : there) {
    EXPECT_NE(text.find("\n| `" + room + "/` |"), std::string::npos)
        << "CONTRIBUTING.md has no row for " << room << "/";
  }
}

}  // namespace
}  // namespace convoy::house
