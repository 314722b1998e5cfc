#include "tests/house/documents.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/files.hpp"
#include "tests/support/source_folder.hpp"
#include "wire/message.hpp"

namespace convoy::house {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kRoot = source_folder();

std::vector<fs::path> documents() {
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(kRoot); entry != fs::end(entry); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && (name.starts_with(".") || name == "build" || name == "runs")) {
      entry.disable_recursion_pending();
    } else if (entry->path().extension() == ".md") {
      files.push_back(entry->path());
    }
  }
  return files;
}

TEST(Documents, LinksPointToFiles) {
  const std::vector<fs::path> files = documents();
  ASSERT_GE(files.size(), 3U);
  for (const fs::path& file : files) {
    for (const Claim& link : relative_links(text_of(file))) {
      EXPECT_TRUE(fs::exists(file.parent_path() / link.text))
          << fs::relative(file, kRoot) << ":" << link.line << ": there is no file at " << link.text;
    }
  }
}

TEST(Documents, ProtocolIsOfTheVersionThatIsSpoken) {
  EXPECT_THAT(text_of(kRoot / "wire/PROTOCOL.md"), HasSubstr(fmt::format("Version {}.", wire::kProtocolVersion)));
}

TEST(Documents, NamedPathsExist) {
  for (const fs::path& file : documents()) {
    for (const Claim& path : named_paths(text_of(file))) {
      EXPECT_TRUE(fs::exists(kRoot / path.text))
          << fs::relative(file, kRoot) << ":" << path.line << ": there is no file or folder " << path.text;
    }
  }
}

TEST(Documents, NamedScriptsRun) {
  for (const Claim& path : named_paths(text_of(kRoot / "README.md"))) {
    if (!path.text.starts_with("scripts/")) continue;
    const fs::perms mode = fs::status(kRoot / path.text).permissions();
    EXPECT_NE(mode & fs::perms::owner_exec, fs::perms::none) << path.text << " is not executable";
  }
}

/// A block says whether it holds commands (`sh`), which tests/house/run_documents.py runs, or something else.
TEST(Documents, BlocksSayWhatTheyHold) {
  for (const char* file : {"README.md", "docs/command-line.md", "docs/nets.md", "docs/walk-through.md"}) {
    for (const Claim& block : block_tags(text_of(kRoot / file))) {
      EXPECT_FALSE(block.text.empty()) << file << ":" << block.line << ": name the language of this block, such as sh";
    }
  }
}

TEST(Documents, FindsRelativeLinks) {
  const std::string text =
      "See [a](docs/a.md#part), [b](https://x.org/b) and [c](#c).\n```\n[d](no.md)\n```\n[e](e.md)\n";
  EXPECT_THAT(relative_links(text), ElementsAre(Claim{"docs/a.md", 1}, Claim{"e.md", 5}));
}

TEST(Documents, FindsNamedPaths) {
  const std::string text =
      "Run `scripts/demo`, not scripts/none, on `nets/NET.yaml`.\n```\ncat docs/a.md build/x\n```\n";
  EXPECT_THAT(named_paths(text), ElementsAre(Claim{"scripts/demo", 1}, Claim{"docs/a.md", 3}));
}

TEST(Documents, FindsTagsOfBlocks) {
  EXPECT_THAT(block_tags("```sh\na\n```\n\n```\nb\n```\n"), ElementsAre(Claim{"sh", 1}, Claim{"", 5}));
}

TEST(Documents, FindsOptionsOfTheProgramNamedLast) {
  const std::string text =
      "`convoy-master train`:\n| `--slaves N` | x |\n```\nconvoy-slave tcp://h:1 --name a\n```\n`ctest "
      "--no`\n";
  EXPECT_THAT(named_options(text),
              ElementsAre(OptionClaim{"convoy-master train", "--slaves", 2}, OptionClaim{"convoy-slave", "--name", 4}));
}

TEST(Documents, FindsRowsOfOptions) {
  const std::string text =
      "## `convoy-master`\n| option | commands |\n|---|---|\n| `--a N`, `--b` | train, test |\n"
      "## `convoy-slave`\n| option | meaning |\n|---|---|\n| `--c` | as `--a` |\n";
  EXPECT_THAT(option_rows(text),
              ElementsAre(OptionClaim{"convoy-master train", "--a", 4}, OptionClaim{"convoy-master test", "--a", 4},
                          OptionClaim{"convoy-master train", "--b", 4}, OptionClaim{"convoy-master test", "--b", 4},
                          OptionClaim{"convoy-slave", "--c", 8}));
}

TEST(Documents, FindsRowsOfFolders) {
  EXPECT_THAT(
      folder_rows("| `core/` | errors | nothing |\n| `wire/` | links | core, `plan/plan.hpp` |\n| `x` | y | z |\n"),
      ElementsAre(FolderRow{"core", {"nothing"}, 1}, FolderRow{"wire", {"core", "plan/plan.hpp"}, 2}));
}

}  // namespace
}  // namespace convoy::house
