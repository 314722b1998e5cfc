// The common parts of all programs' command lines: --version, error texts, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace convoy {

/// Thrown for a command line that cannot be parsed. The message names the wrong word and the right one.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Parses the command line into the variables of `app`. Handles --help and --version itself and then returns 0;
/// otherwise returns nothing, and the program goes on. Throws UsageError. `program` is the program's name for --version
/// and error texts.
std::optional<int> parse_command_line(CLI::App& app, const std::string& program, int argc, char** argv);

/// Reports errors as a line on standard error, or with `json` as an object on standard output.
struct ErrorReport {
  std::string program;
  bool json = false;

  void say(const std::string& message) const;
};

/// Whether a command line asks for JSON. It works even if the command line cannot be parsed.
bool asks_for_json(int argc, char** argv);

/// Runs `work` and returns its exit code. If it throws, reports the error and returns the exit code for it. Reports
/// output that could not be written as an error, unless the program may go on without it (core/output.hpp). If a device
/// is lost, ends the process at once, because the shutdown of its driver might wait for the device forever.
int report_errors(const ErrorReport& report, const std::function<int()>& work);

}  // namespace convoy
