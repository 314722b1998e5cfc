#include "master/commands/run_options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

namespace convoy {
namespace {

/// Options that are part of the net in config.yaml, and options for a single call.
constexpr std::array kNotOfTheRun{"set",         "batch",  "epochs", "steps",  "out",    "weights", "except",
                                  "new-outputs", "resume", "format", "trials", "images", "hours",   "help"};

/// Splits a text such as "a, {b, c}, d" into "a", "{b, c}" and "d".
std::vector<std::string> split_fields(const std::string& text) {
  std::vector<std::string> fields(1);
  int depth = 0;
  for (const char letter : text) {
    if (letter == '{' || letter == '[') ++depth;
    if (letter == '}' || letter == ']') --depth;
    if (letter == ',' && depth == 0) {
      fields.emplace_back();
    } else if (letter != ' ' || !fields.back().empty()) {
      fields.back() += letter;
    }
  }
  return fields;
}

using Values = std::map<std::string, std::string>;

/// Adds the value of a text "field: value", or all values of a text "field: {name: value, ...}". The text may come from
/// a damaged file, so maps that are nested deeper than those of a net are taken as values.
void add(const std::string& owner, const std::string& field, Values& values, int depth = 0) {
  constexpr int kDeepest = 4;
  const std::size_t colon = field.find(": ");
  if (colon == std::string::npos) return;
  const std::string name = owner + field.substr(0, colon);
  const std::string value = field.substr(colon + 2);
  if (!value.starts_with('{') || depth == kDeepest) {
    values[name] = value;
    return;
  }
  for (const std::string& each : split_fields(value.substr(1, value.size() - 2)))
    add(name + ".", each, values, depth + 1);
}

/// The values in a text of to_yaml(), by the names that --set uses.
Values values_of(const std::string& text) {
  constexpr std::string_view kLayer = "  - {name: ";
  Values values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kLayer)) {
      const std::size_t end = line.find(", ");
      const std::string name = line.substr(kLayer.size(), end - kLayer.size());
      add("", name + ": {" + line.substr(end + 2), values);
    } else if (line.starts_with("  ")) {
      add("training.", line.substr(2), values);
    } else {
      add("", line, values);
    }
  }
  return values;
}

}  // namespace

RunOptions options_given(const CLI::App& train) {
  RunOptions given;
  for (const CLI::Option* option : train.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (std::ranges::find(kNotOfTheRun, name) != kNotOfTheRun.end()) continue;
    std::string value = option->results().front();
    if (name == "data") value = place_of_data(value);
    if (name == "keys" || name == "power-from" || (name == "plan" && value != "thesis"))
      value = std::filesystem::absolute(value).string();
    given[name] = value;
  }
  return given;
}

void take_over(CLI::App& command, const RunOptions& run, const std::vector<std::string>& names) {
  for (const auto& [name, value] : run) {
    if (!names.empty() && std::ranges::find(names, name) == names.end()) continue;
    CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr || option->count() > 0) continue;
    option->add_result(value);
    option->run_callback();
  }
}

std::string place_of_data(const std::string& data) {
  if (data == "glyphs") return data;
  return std::filesystem::absolute(data).lexically_normal().string();
}

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-+=./:,@%") == std::string::npos;
  return plain ? word : "'" + word + "'";
}

std::vector<std::string> differences(const std::string& before, const std::string& now) {
  const Values old_values = values_of(before);
  const Values new_values = values_of(now);
  std::vector<std::string> texts;
  for (const auto& [name, value] : old_values) {
    const auto found = new_values.find(name);
    if (found == new_values.end()) {
      texts.push_back(fmt::format("{} was {} and is now missing", name, value));
    } else if (found->second != value) {
      texts.push_back(fmt::format("{} was {} and is now {}", name, value, found->second));
    }
  }
  for (const auto& [name, value] : new_values) {
    if (!old_values.contains(name)) texts.push_back(fmt::format("{} was missing and is now {}", name, value));
  }
  return texts;
}

}  // namespace convoy
