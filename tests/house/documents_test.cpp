#include "tests/house/documents.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "tests/support/source_folder.hpp"
#include "wire/message.hpp"

namespace convoy::house {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kRoot = source_folder();

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

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

/// The output of the program for --help, or an empty text if it was not built.
std::string help_of(const std::string& command) {
  static const std::map<std::string, std::string> programs{
      {"convoy-master", CONVOY_MASTER},
      {"convoy-slave", CONVOY_SLAVE},
      {"convoy-bench", CONVOY_BENCH},
  };
  const auto space = command.find(' ');
  const auto program = programs.find(command.substr(0, space));
  if (program == programs.end() || program->second.empty()) return "";
  const std::string rest = space == std::string::npos ? "" : command.substr(space);
  const std::string line = fmt::format("'{}'{} --help 2>&1", program->second, rest);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> chunk{};
  while (std::fgets(chunk.data(), static_cast<int>(chunk.size()), pipe.get()) != nullptr) text += chunk.data();
  return text;
}

TEST(Documents, LinksPointToFiles) {
  const std::vector<fs::path> files = documents();
  ASSERT_GE(files.size(), 3U);
  for (const fs::path& file : files) {
    for (const Claim& link : relative_links(read(file))) {
      EXPECT_TRUE(fs::exists(file.parent_path() / link.text))
          << fs::relative(file, kRoot) << ":" << link.line << ": there is no file at " << link.text;
    }
  }
}

TEST(Documents, ProtocolIsOfTheVersionThatIsSpoken) {
  EXPECT_THAT(read(kRoot / "wire/PROTOCOL.md"), HasSubstr(fmt::format("Version {}.", wire::kProtocolVersion)));
}

TEST(Documents, NamedPathsExist) {
  for (const fs::path& file : documents()) {
    for (const Claim& path : named_paths(read(file))) {
      EXPECT_TRUE(fs::exists(kRoot / path.text))
          << fs::relative(file, kRoot) << ":" << path.line << ": there is no file or folder " << path.text;
    }
  }
}

TEST(Documents, NamedScriptsRun) {
  for (const Claim& path : named_paths(read(kRoot / "README.md"))) {
    if (!path.text.starts_with("scripts/")) continue;
    const fs::perms mode = fs::status(kRoot / path.text).permissions();
    EXPECT_NE(mode & fs::perms::owner_exec, fs::perms::none) << path.text << " is not executable";
  }
}

TEST(Documents, ReadmeNamesOptionsThatExist) {
  std::map<std::string, std::string> helps;
  const std::vector<OptionClaim> options = named_options(read(kRoot / "README.md"));
  EXPECT_GT(options.size(), 5U);
  for (const OptionClaim& claim : options) {
    ASSERT_FALSE(claim.program.empty()) << "README.md:" << claim.line << ": " << claim.option
                                        << " belongs to no program; name one before it";
    if (!helps.contains(claim.program)) helps[claim.program] = help_of(claim.program);
    const std::string& help = helps[claim.program];
    EXPECT_FALSE(help.empty()) << "README.md:" << claim.line << ": " << claim.program << " was not built";
    EXPECT_NE(help.find(claim.option), std::string::npos)
        << "README.md:" << claim.line << ": " << claim.program << " has no option " << claim.option;
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

TEST(Documents, FindsOptionsOfTheProgramNamedLast) {
  const std::string text =
      "`convoy-master train`:\n| `--slaves N` | x |\n```\nconvoy-slave tcp://h:1 --name a\n```\n`ctest "
      "--no`\n";
  EXPECT_THAT(named_options(text),
              ElementsAre(OptionClaim{"convoy-master train", "--slaves", 2}, OptionClaim{"convoy-slave", "--name", 4}));
}

}  // namespace
}  // namespace convoy::house
