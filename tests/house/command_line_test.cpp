// The documents name the options that the programs have: those of the README exist, and docs/command-line.md has them
// all.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "tests/house/documents.hpp"
#include "tests/support/files.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy::house {
namespace {

using ::testing::ElementsAreArray;
using Names = std::set<std::string>;

const std::map<std::string, std::string>& programs() {
  static const std::map<std::string, std::string> files{
      {"convoy-master", CONVOY_MASTER},
      {"convoy-slave", CONVOY_SLAVE},
      {"convoy-bench", CONVOY_BENCH},
  };
  return files;
}

/// What the program prints for --help, or nothing where it was not built.
std::string help_of(const std::string& command) {
  const auto space = command.find(' ');
  const auto program = programs().find(command.substr(0, space));
  if (program == programs().end() || program->second.empty()) return "";
  const std::string rest = space == std::string::npos ? "" : command.substr(space);
  const std::string line = fmt::format("'{}'{} --help 2>&1", program->second, rest);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> chunk{};
  while (std::fgets(chunk.data(), static_cast<int>(chunk.size()), pipe.get()) != nullptr) text += chunk.data();
  return text;
}

/// The options that a help lists: they stand at the beginning of its lines, with the options that turn them off.
Names options_in(const std::string& help) {
  static const std::regex option(R"(^ {1,4}(?:-\w, ?)?(--[a-z][a-z0-9-]*)(?:,(--no-[a-z-]+))?.*)");
  Names names;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, option) || match[1] == "--help" || match[1] == "--version") continue;
    names.insert(match[1]);
    if (match[2].matched) names.insert(match[2]);
  }
  return names;
}

/// The commands that a program's help lists, each with the program in front of it, and the program itself where it has
/// options of its own.
std::vector<std::string> commands_of(const std::string& program) {
  static const std::regex command(R"(^ {1,4}([a-z]+)\b.*)");
  std::vector<std::string> commands;
  std::istringstream lines(help_of(program));
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with("Subcommands:") || line.starts_with("SUBCOMMANDS:")) {
      listed = true;
    } else if (listed && std::regex_match(line, match, command)) {
      commands.push_back(program + " " + match[1].str());
    }
  }
  if (!options_in(help_of(program)).empty()) commands.push_back(program);
  return commands;
}

TEST(CommandLine, DocumentHasTheOptionsOfEachCommandAndNoOthers) {
  std::map<std::string, Names> documented;
  for (const OptionClaim& row : option_rows(text_of(source_folder() + "/" + "docs/command-line.md")))
    documented[row.program].insert(row.option);
  for (const auto& [program, file] : programs()) {
    ASSERT_FALSE(file.empty()) << program << " was not built";
    for (const std::string& command : commands_of(program)) {
      const Names options = options_in(help_of(command));
      EXPECT_FALSE(options.empty()) << command << " --help lists no options";
      EXPECT_THAT(documented[command], ElementsAreArray(options)) << "docs/command-line.md on " << command;
      documented.erase(command);
    }
  }
  for (const auto& [command, options] : documented) ADD_FAILURE() << "docs/command-line.md: there is no " << command;
}

TEST(CommandLine, HelpFitsIntoATerminalOf80Columns) {
  for (const auto& [program, file] : programs()) {
    ASSERT_FALSE(file.empty()) << program << " was not built";
    std::vector<std::string> commands = commands_of(program);
    commands.push_back(program);
    for (const std::string& command : commands) {
      std::istringstream lines(help_of(command));
      for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 80U) << command << " --help: " << line;
    }
  }
}

TEST(CommandLine, DocumentsNameOptionsThatExist) {
  std::map<std::string, std::string> helps;
  for (const char* file : {"README.md", "docs/walk-through.md", "docs/nets.md"}) {
    const std::vector<OptionClaim> options = named_options(text_of(source_folder() + "/" + file));
    EXPECT_GT(options.size(), 5U);
    for (const OptionClaim& claim : options) {
      ASSERT_FALSE(claim.program.empty()) << file << ":" << claim.line << ": " << claim.option << " of which program?";
      if (!helps.contains(claim.program)) helps[claim.program] = help_of(claim.program);
      const std::string& help = helps[claim.program];
      EXPECT_FALSE(help.empty()) << file << ":" << claim.line << ": " << claim.program << " was not built";
      EXPECT_NE(help.find(claim.option), std::string::npos)
          << file << ":" << claim.line << ": " << claim.program << " has no option " << claim.option;
    }
  }
}

TEST(CommandLine, FindsOptionsInAHelp) {
  EXPECT_EQ(options_in("Options:\n  -h,--help     text\n  --set TEXT ...   see --other\n       --wrapped\n"),
            Names{"--set"});
}

}  // namespace
}  // namespace convoy::house
