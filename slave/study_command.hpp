// `convoy-slave study`: the study of energy on a machine that has neither a master nor net files, such as a phone.
#pragma once

#include <optional>

namespace CLI {
class App;
}  // namespace CLI

namespace convoy {

/// Adds the command `study`, which runs while the command line is parsed. `code` receives its exit code, and stays
/// empty if the command was not given.
void add_study(CLI::App& app, std::optional<int>& code);

}  // namespace convoy
