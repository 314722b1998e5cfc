#include "cli/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/help_format.hpp"
#include "cli/likely_meant.hpp"
#include "core/exit_code.hpp"
#include "core/output.hpp"
#include "core/text.hpp"

namespace convoy {
namespace {

using Names = std::vector<std::string>;

/// The names of a command's options, without its positional arguments.
Names option_names(const CLI::App& command) {
  Names names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Names command_names(const CLI::App& app) {
  Names names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

/// A command line that could not be parsed, with the names for its error text.
struct Failed {
  const CLI::App& app;
  const CLI::App& command;  ///< the chosen command; the same as `app` if there is none
  std::string called;       ///< its name with the program's, such as "convoy-master train"

  std::string help() const { return fmt::format("{} --help lists the options", called); }
};

std::string unknown_option(const Failed& failed, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const Names own = option_names(failed.command);
  if (&failed.command != &failed.app && std::ranges::find(own, name) != own.end()) {
    return fmt::format("{} comes before the command; write it after the command, as in {} {}", name, failed.called,
                       name);
  }
  for (const CLI::App* other : failed.app.get_subcommands([](const CLI::App*) { return true; })) {
    const Names known = option_names(*other);
    if (other == &failed.command || std::ranges::find(known, name) == known.end()) continue;
    if (&failed.command == &failed.app) {
      return fmt::format("{} comes before the command; write it after the command, as in {} {} {}", name, failed.called,
                         other->get_name(), name);
    }
    if (likely_meant(name, own).empty()) {
      return fmt::format("{} has no option {}, but {} has; {}", failed.command.get_name(), name, other->get_name(),
                         failed.help());
    }
  }
  const std::string meant = likely_meant(name, own);
  if (meant.empty()) return fmt::format("unknown option {}; {}", printable(name), failed.help());
  return fmt::format("unknown option {}; did you mean {}?", printable(name), meant);
}

std::string unknown_command(const Failed& failed, const std::string& word) {
  const Names commands = command_names(failed.app);
  const std::string meant = likely_meant(word, commands);
  if (!meant.empty()) return fmt::format("unknown command '{}'; did you mean {}?", printable(word), meant);
  return fmt::format("unknown command '{}'; the commands are: {}", printable(word), fmt::join(commands, ", "));
}

/// The error text for the words that no option or argument took; empty if there are none.
std::string unexpected_words(const Failed& failed) {
  const Names words = failed.app.remaining(true);
  const auto is_option = [](const std::string& word) {
    return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
  };
  const auto option = std::ranges::find_if(words, is_option);
  if (option != words.end()) return unknown_option(failed, *option);
  if (words.empty()) return "";
  const std::string& word = words.front();
  if (&failed.command == &failed.app && !command_names(failed.app).empty()) return unknown_command(failed, word);
  const bool sets = word.find('=') != std::string::npos && failed.command.get_option_no_throw("--set") != nullptr;
  if (sets) return fmt::format("'{}' is one word too many; write --set before each field", printable(word));
  return fmt::format("'{}' is one word too many; {}", printable(word), failed.help());
}

/// Splits a message of the parser, such as "--a excludes --b", at the text `between`.
std::pair<std::string, std::string> options_in(const std::string& message, std::string_view between) {
  const auto at = message.find(between);
  if (at == std::string::npos) return {message, ""};
  return {message.substr(0, at), message.substr(at + between.size())};
}

std::string missing_word(const Failed& failed, const std::string& message) {
  for (const CLI::Option* option : failed.command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    std::string name = option->get_name();
    if (!name.starts_with('-')) std::ranges::transform(name, name.begin(), [](char c) { return std::toupper(c); });
    return fmt::format("{} needs {}: {}", failed.called, name, option->get_description());
  }
  if (&failed.command != &failed.app) {
    return fmt::format("{} needs {}", failed.called, options_in(message, " is required").first);
  }
  const Names commands = command_names(failed.app);
  return fmt::format("no command is given; the commands are: {}", fmt::join(commands, ", "));
}

std::string wrong_count(const Failed& failed, const std::string& message) {
  const std::string name = message.substr(0, message.find_first_of(": "));
  const CLI::Option* option = failed.command.get_option_no_throw(name);
  if (option == nullptr) return fmt::format("the values of an option do not match; {}", failed.help());
  if (option->get_type_size() == 0) return fmt::format("{} takes no value", name);
  if (option->count() > 1) return fmt::format("{} is given more than once; give it once", name);
  return fmt::format("{} needs a value: {}", name, option->get_description());
}

/// The error text for a value that the parser could not convert. Its message is "Could not convert: --name = value".
std::string not_converted(const Failed& failed, const std::string& message) {
  const auto name = message.find("--");
  const auto equals = message.find(" = ", std::min(name, message.size()));
  if (equals == std::string::npos) return fmt::format("the value of an option is not a number; {}", failed.help());
  return fmt::format("{}: '{}' is not a number", message.substr(name, equals - name),
                     printable(message.substr(equals + 3)));
}

std::string explain(const Failed& failed, const CLI::ParseError& error) {
  const std::string unexpected = unexpected_words(failed);
  if (!unexpected.empty()) return unexpected;
  const std::string message = error.what();
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return message;  // from cli/checks.hpp
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) return not_converted(failed, message);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return missing_word(failed, message);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return wrong_count(failed, message);
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const auto [one, other] = options_in(message, " excludes ");
    return fmt::format("{} and {} exclude each other; leave one of them out", one, other);
  }
  if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr) {
    const auto [one, other] = options_in(message, " requires ");
    return fmt::format("{} needs {} as well", one, other);
  }
  return fmt::format("the command line cannot be read; {}", failed.help());
}

std::string json_text(const std::string& text) {
  std::string made;
  for (const char each : printable(text)) {
    if (each == '"' || each == '\\') made += '\\';
    made += each;
  }
  return made;
}

/// Escapes all control characters except newlines, so that a terminal does not obey them.
std::string printable_lines(const std::string& text) {
  std::string made;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    made += (at > 0 ? "\n" : "") + printable(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  return made;
}

/// The error text for an exception that is not an Error of Convoy.
std::string foreign(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "the system refuses the memory that this program needs; take a smaller --batch, end other programs, or "
           "raise its limit (ulimit -v)";
  }
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again) {
    return "the system refuses another thread; end other programs, give smaller --threads, or raise the limits of "
           "memory "
           "and processes (ulimit -v and ulimit -u)";
  }
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return fmt::format("{}: the file or folder cannot be used: {}", of_file->path1().string(),
                       of_file->code().message());
  }
  return fmt::format("this is a bug in Convoy; please report it: {}", error.what());
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, const std::string& program, int argc, char** argv) {
  app.set_version_flag("--version", program + " " + CONVOY_VERSION, "print the version and end");
  const std::shared_ptr<CLI::FormatterBase> format = make_help_format();
  app.name(program);
  std::vector<CLI::App*> all = app.get_subcommands([](const CLI::App*) { return true; });
  all.push_back(&app);
  for (CLI::App* each : all) {
    each->formatter(format);
    each->set_help_flag("-h,--help", "print this help and end");
  }
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& asked) {
    app.exit(asked);
    return kSuccess;
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App& command = chosen.empty() ? app : *chosen.front();
    throw UsageError(explain(
        {.app = app, .command = command, .called = chosen.empty() ? program : program + " " + command.get_name()},
        error));
  }
}

void ErrorReport::say(const std::string& message) const {
  if (json) {
    put(stdout, fmt::format("{{\"event\":\"error\",\"message\":\"{}\"}}\n", json_text(message)));
    if (std::ferror(stdout) == 0) return;
  }
  put(stderr, fmt::format("{}: {}\n", program, printable_lines(message)));
}

bool asks_for_json(int argc, char** argv) {
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--format=json" || (word == "--format" && i + 1 < argc && std::string_view(argv[i + 1]) == "json")) {
      json = true;
    }
  }
  return json;
}

namespace {

/// ZeroMQ, OpenCL drivers and the C++ runtime abort the program when they are refused a thread or a little memory, so a
/// limit under which that happens is an error from the start.
void expect_address_space() {
  constexpr rlim_t kLeast = rlim_t{1} << 30;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kLeast) return;
  fail(
      "the address space of this program is limited to {} MiB, but it and its libraries need {} MiB; raise the limit "
      "with `ulimit -v unlimited`",
      limit.rlim_cur >> 20, kLeast >> 20);
}

int run_and_report(const ErrorReport& report, const std::function<int()>& work) {
  try {
    expect_address_space();
    return work();
  } catch (const UsageError& error) {
    report.say(error.what());
    return kUsage;
  } catch (const PeerLost& error) {
    report.say(error.what());
    return kSlaveLost;
  } catch (const DeviceLost& error) {
    report.say(error.what());
    std::fflush(nullptr);
    std::_Exit(kFailure);
  } catch (const Error& error) {
    report.say(error.what());
    return kFailure;
  } catch (const std::exception& error) {
    // What fmt throws where standard output cannot be written is reported below.
    if (std::ferror(stdout) == 0) report.say(foreign(error));
    return kFailure;
  }
}

}  // namespace

int report_errors(const ErrorReport& report, const std::function<int()>& work) {
  const int code = run_and_report(report, work);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  put(stderr,
      fmt::format("{}: standard output could not be written to its end, because its reader has ended or its disk is "
                  "full; the output is not complete\n",
                  report.program));
  return code == kSuccess ? kFailure : code;
}

}  // namespace convoy
