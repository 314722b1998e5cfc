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
      R"((convoy-(?:master|slave|bench)(?: (?:train|test|plan|predict|import|export|conv|profile|transport))?)\b|(^|[\s\[|(])(--[a-z][a-z-]*))");
  static const std::regex other(R"(^\s*(cmake|ctest|git|ninja|scripts/).*)");
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

}  // namespace convoy::house
