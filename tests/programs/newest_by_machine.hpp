// What each machine does, by the events of a program that runs with `--format json`.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace convoy {

/// Returns the value of `field` in the newest of the events `event`, for each machine.
inline std::map<std::string, std::string> newest_by_machine(const std::string& output, const std::string& event,
                                                            const std::string& field) {
  std::map<std::string, std::string> newest;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("event", "") == event) newest[json.value("machine", "")] = json.value(field, "");
  }
  return newest;
}

}  // namespace convoy
