// The layout of help texts: 79 columns, the words of an option on the left and its description on the right.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace convoy {

/// Returns a formatter for the program and all its commands.
std::shared_ptr<CLI::FormatterBase> make_help_format();

}  // namespace convoy
