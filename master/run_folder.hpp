// The folder of a run: what belongs to it and what it is called.
#pragma once

#include <string>

#include "nets/net.hpp"
#include "plan/plan.hpp"

namespace convoy {

/// Makes the folder, `out` or runs/<net>-<first free number>. Throws Error when `out` already holds a run, or cannot be
/// made.
std::string make_run_folder(const std::string& out, const std::string& net);

/// Writes `text` to `file` whole or not at all. Throws Error naming the file.
void write_text(const std::string& file, const std::string& text);
/// Throws Error naming the file when it cannot be read or is larger than 16 MiB.
std::string read_text(const std::string& file);

}  // namespace convoy
