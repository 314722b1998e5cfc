// What the command lines of all programs have in common: --version, errors in Convoy's own words, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace convoy {

/// A command line that cannot be read. The message names the word and how to write it.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Parses the command line into the variables that `app` knows. Returns 0 after --help or --version, which it answers,
/// and nothing when the program is to go on. Throws UsageError. `program` is the name for --version and hints.
std::optional<int> parse_command_line(CLI::App& app, const std::string& program, int argc, char** argv);

/// Where errors go: a line on standard error, or with `json` an object on standard output.
struct ErrorReport {
  std::string program;
  bool json = false;

  void say(const std::string& message) const;
};

/// Whether the words of a command line ask for JSON, also where they cannot be parsed.
bool asks_for_json(int argc, char** argv);

/// Runs `work` and returns its exit code. Reports whatever it throws and returns the exit code for that. When a device
/// is lost it ends the process at once: the driver's own end might wait for the device for ever.
int report_errors(const ErrorReport& report, const std::function<int()>& work);

}  // namespace convoy
