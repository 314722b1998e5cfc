#include "tests/house/documents.hpp"

#include <fmt/ranges.h>

#include <functional>
#include <regex>
#include <sstream>

#include "tests/house/rules.hpp"

namespace convoy::house {
namespace {

struct Line {
  int number = 0;
  bool block = false;  ///< inside a fenced block of code
  std::string text;
};

std::vector<Line> lines_of(const std::string& markdown) {
  std::vector<Line> lines;
  std::istringstream stream(markdown);
  bool block = false;
  int number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    if (text.starts_with("```")) {
      block = !block;
    } else {
      lines.push_back({number, block, text});
    }
  }
  return lines;
}

using Look = std::function<void(const std::smatch&)>;

void each_match(const std::string& text, const std::regex& pattern, const Look& look) {
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) look(*match);
}

/// The code in a line: the whole line inside a fenced block, else the texts between backticks.
std::vector<std::string> code_of(const Line& line) {
  if (line.block) return {line.text};
  static const std::regex ticks("`([^`]+)`");
  std::vector<std::string> pieces;
  each_match(line.text, ticks, [&](const std::smatch& match) { pieces.push_back(match[1]); });
  return pieces;
}

/// The cells of a row of a table, without the spaces around them; empty where the line is no such row.
std::vector<std::string> cells_of(const std::string& text) {
  static const std::regex cell(R"(\|\s*([^|]*[^|\s])?\s*(?=\|))");
  std::vector<std::string> cells;
  if (!text.starts_with("|")) return cells;
  each_match(text, cell, [&](const std::smatch& match) { cells.push_back(match[1]); });
  return cells;
}

}  // namespace

std::vector<Claim> relative_links(const std::string& markdown) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  static const std::regex web(R"(^([a-z]+:|#).*)");
  std::vector<Claim> links;
  for (const Line& line : lines_of(markdown)) {
    if (line.block) continue;
    each_match(line.text, link, [&](const std::smatch& match) {
      const std::string target = match[1];
      if (!std::regex_match(target, web)) links.push_back({target.substr(0, target.find('#')), line.number});
    });
  }
  return links;
}

std::vector<Claim> named_paths(const std::string& markdown) {
  static const std::regex path(
      fmt::format(R"((^|[\s"'=(])((?:scripts|docs|cmake|\.ci|{})/[^\s"'`,;:)]*))", fmt::join(code_folders(), "|")));
  static const std::regex stands_for_many(R"(.*([*<>{}\[\]$|]|\.\.\.|NAME|NET|FOLDER).*)");
  std::vector<Claim> paths;
  for (const Line& line : lines_of(markdown)) {
    for (const std::string& code : code_of(line)) {
      each_match(code, path, [&](const std::smatch& match) {
        if (!std::regex_match(match[2].str(), stands_for_many)) paths.push_back({match[2], line.number});
      });
    }
  }
  return paths;
}

std::vector<OptionClaim> named_options(const std::string& markdown) {
  static const std::regex word(
      R"((convoy-(?:master|slave|bench)(?: (?:train|test|plan|predict|import|export|key|conv|profile|transport))?)\b)"
      R"(|(^|[\s\[|(])(--[a-z][a-z-]*))");
  static const std::regex other(R"(^\s*(cmake|ctest|git|ninja|scripts/|bench/|tests/).*)");
  std::vector<OptionClaim> options;
  std::string program;
  for (const Line& line : lines_of(markdown)) {
    for (const std::string& code : code_of(line)) {
      if (std::regex_match(code, other)) continue;
      each_match(code, word, [&](const std::smatch& match) {
        if (match[1].matched) {
          program = match[1];
        } else {
          options.push_back({program, match[3], line.number});
        }
      });
    }
  }
  return options;
}

std::vector<OptionClaim> option_rows(const std::string& markdown) {
  static const std::regex heading(R"(^#+ .*`(convoy-[a-z]+(?: [a-z]+)?)`.*)");
  static const std::regex option(R"(`(--[a-z][a-z0-9-]*))");
  static const std::regex name("[a-z]+");
  std::vector<OptionClaim> claims;
  std::string program;
  bool has_commands = false;
  for (const Line& line : lines_of(markdown)) {
    std::smatch match;
    if (line.block) continue;
    if (std::regex_match(line.text, match, heading)) program = match[1];
    const std::vector<std::string> cells = cells_of(line.text);
    if (cells.size() < 2) continue;
    if (cells[0] == "option") has_commands = cells[1] == "commands";
    if (!cells[0].starts_with("`--")) continue;
    each_match(cells[0], option, [&](const std::smatch& found) {
      if (!has_commands) claims.push_back({program, found[1], line.number});
      if (!has_commands) return;
      each_match(cells[1], name, [&](const std::smatch& command) {
        claims.push_back({program + " " + command[0].str(), found[1], line.number});
      });
    });
  }
  return claims;
}

std::vector<Claim> block_tags(const std::string& markdown) {
  std::vector<Claim> tags;
  std::istringstream stream(markdown);
  bool block = false;
  int number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    if (!text.starts_with("```")) continue;
    block = !block;
    if (block) tags.push_back({text.substr(3), number});
  }
  return tags;
}

std::vector<FolderRow> folder_rows(const std::string& markdown) {
  static const std::regex folder("`([a-z]+)/`");
  static const std::regex word("[a-z/.]+");
  std::vector<FolderRow> rows;
  for (const Line& line : lines_of(markdown)) {
    const std::vector<std::string> cells = cells_of(line.text);
    std::smatch match;
    if (line.block || cells.size() != 3 || !std::regex_match(cells[0], match, folder)) continue;
    FolderRow row{.folder = match[1], .may_include = {}, .line = line.number};
    each_match(cells[2], word, [&](const std::smatch& found) { row.may_include.push_back(found[0]); });
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace convoy::house
