// Standard output and standard error, whose reader may end before the program, as in `convoy-master train ... | head
// -1`.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace convoy {

/// To be called at the start of main. From then on a write to a pipe that nobody reads fails instead of ending the
/// program, and a file that the program opens cannot take the place of a standard stream that was closed.
void prepare_output();

/// From now on standard output may end: the first put() that fails says so on standard error together with `instead`,
/// which says where the output is from then on, and all later output goes nowhere. Without this call the end of the
/// program reports output that was lost (cli/command_line.hpp).
void go_on_without_output(const std::string& instead);

/// Writes a text to stdout or stderr and flushes it. Failures throw nothing; the stream keeps them (std::ferror).
void put(std::FILE* to, std::string_view text);

}  // namespace convoy
